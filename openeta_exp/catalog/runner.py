"""One episode spec of a catalog and one policy -> one outcome."""

from __future__ import annotations

from pathlib import Path

from pydantic import JsonValue

from openeta_exp.catalog.expansion import Binding, Expansion
from openeta_exp.catalog.host.episode import seed_of
from openeta_exp.catalog.identity import scenario_digest
from openeta_exp.catalog.importing import module_name
from openeta_exp.catalog.messages import (
    AdapterDescription,
    PolicyDescription,
    WorkerFailure,
)
from openeta_exp.catalog.outcomes import Attempt
from openeta_exp.catalog.pool import WorkerPool
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.stop import FailureClass
from openeta_exp.errors import CatalogError, InfrastructureError, PolicyError
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.policy import PolicyRecipe

_STARTUP_S = 600.0
"""Building an adapter and loading weights, before a first answer is due."""


class CatalogRunner:
    """Runs episodes of one expansion on a pool of workers. May be shared by any number of tasks.

    Args:
        render: `gpu` or `cpu` for adapters that ask; None leaves the choice to them.
        steps_dir: Where step records go, one file per episode; None keeps them in the outcome.
        video_dir: Where videos go; None records none.
    """

    def __init__(
        self,
        expansion: Expansion,
        pool: WorkerPool,
        *,
        clock: Clock,
        render: str | None = None,
        steps_dir: Path | None = None,
        video_dir: Path | None = None,
    ) -> None:
        self._expansion = expansion
        self._pool = pool
        self._clock = clock
        self._render = render
        self._steps_dir = steps_dir
        self._video_dir = video_dir

    async def run_episode(
        self, spec: EpisodeSpec, *, policy: PolicyRecipe, arm: Digest
    ) -> EpisodeOutcome:
        """Run one episode; whatever breaks costs this episode and nothing else.

        Raises:
            CatalogError: The spec is not of this catalog.
        """
        binding = self._binding(spec)
        attempt = Attempt(spec, arm, started_at_s=self._clock.unix_s())
        request = self._request(spec, binding, policy, attempt)
        began_s = self._clock.monotonic_s()
        try:
            reply = await self._pool.request(
                request, affinity=spec.env_id, timeout_s=spec.budget.timeout_s
            )
        except InfrastructureError as error:
            return attempt.broke(
                WorkerFailure(
                    failure_class=FailureClass.SIMULATOR,
                    code=error.code,
                    error_type=type(error).__name__,
                    message=str(error),
                ),
                duration_s=self._clock.monotonic_s() - began_s,
            )
        return attempt.outcome(reply, duration_s=self._clock.monotonic_s() - began_s)

    async def describe_adapter(self, env_id: str) -> AdapterDescription:
        """Build the adapter and ask what it offers.

        Raises:
            CatalogError: It cannot be built, or does not offer the task.
        """
        binding = self._expansion.bindings[env_id]
        reply = await self.ask(
            {
                "do": "describe",
                "instruction": binding.task.instruction,
                "provider_ref": binding.task.provider_ref,
            },
            env_id=env_id,
        )
        return AdapterDescription.model_validate(reply)

    async def describe_policy(self, policy: PolicyRecipe) -> PolicyDescription:
        """Build the policy, or connect to it, and ask what it is.

        Raises:
            PolicyError: It cannot be built or reached.
        """
        reply = await self.ask(
            {"do": "describe_policy", "policy": policy.model_dump(mode="json")}, env_id=None
        )
        return PolicyDescription.model_validate(reply)

    async def ask(self, request: JsonObject, *, env_id: str | None) -> JsonObject:
        """Let a worker answer anything about one environment, or about none.

        Raises:
            PolicyError: The policy is to blame for a failure.
            CatalogError: Anything else is.
            SimulatorError: The process died.
        """
        if env_id is not None:
            request = {**request, "scene": self._scene(self._expansion.bindings[env_id])}
        reply = await self._pool.request(request, affinity=env_id or "", timeout_s=_STARTUP_S)
        failure = reply.get("error")
        if isinstance(failure, dict):
            told = WorkerFailure.model_validate(failure)
            if told.failure_class is FailureClass.POLICY_SERVER:
                raise PolicyError(told.message, code=told.code)
            raise CatalogError(told.message)
        return reply

    def _binding(self, spec: EpisodeSpec) -> Binding:
        binding = self._expansion.bindings.get(spec.env_id)
        if binding is None:
            raise CatalogError(f"episode {spec.episode_id}: {spec.env_id} is not in this catalog")
        return binding

    def _scene(self, binding: Binding) -> JsonObject:
        external = binding.scene.external
        assert external is not None
        return {"provider": external.provider, "params": external.params, "render": self._render}

    def _request(
        self, spec: EpisodeSpec, binding: Binding, policy: PolicyRecipe, attempt: Attempt
    ) -> JsonObject:
        params, perturbations = split_scenario(spec.scenario)
        max_steps = spec.budget.max_turns
        if binding.seed_parameter is not None:
            # A planner's manifest: its turns are no control steps.
            params[binding.seed_parameter] = spec.seed
            max_steps = binding.task.max_steps
        exact = scenario_digest(params, perturbations)
        return {
            "do": "episode",
            "scene": self._scene(binding),
            "policy": policy.model_dump(mode="json"),
            "rules": rules_of(binding),
            "episode": {
                "instruction": spec.task,
                "provider_ref": binding.task.provider_ref,
                "scenario": params,
                "perturbations": perturbations,
                "episode_idx": spec.repeat,
                "max_steps": max_steps,
                "seed": seed_of(exact, spec.repeat),
            },
            "output": {
                "session_id": attempt.session_id,
                "execution_id": attempt.execution_id,
                "steps_dir": None if self._steps_dir is None else str(self._steps_dir.resolve()),
                "video_dir": None if self._video_dir is None else str(self._video_dir.resolve()),
            },
        }


def split_scenario(scenario: JsonObject) -> tuple[JsonObject, list[JsonValue]]:
    """The parameters for `reset`, and the perturbations."""
    listed = scenario.get("perturbations", [])
    perturbations = listed if isinstance(listed, list) else []
    return {key: value for key, value in scenario.items() if key != "perturbations"}, perturbations


def rules_of(binding: Binding) -> JsonObject:
    """The task's rules as a worker needs them, with every stand-in already resolved."""
    task, scene = binding.task, binding.scene
    return {
        "predicate": resolved(task.predicate),
        "predicate_args": task.predicate_args,
        "phases": [
            {
                "name": phase.name,
                "predicate": resolved(phase.predicate),
                "predicate_args": phase.predicate_args,
            }
            for phase in task.phases
        ],
        "thresholds": [
            each.model_dump(mode="json") for each in (task.success.all_of if task.success else ())
        ],
        "metrics": [
            {**rule.model_dump(mode="json"), "extractor": resolved(rule.extractor)}
            for rule in scene.metrics
        ],
        "context": {
            "task_id": task.id,
            "instruction": task.instruction,
            "provider_ref": task.provider_ref,
        },
    }


def resolved(import_string: str) -> str:
    return f"{module_name(import_string)}:{import_string.partition(':')[2]}"
