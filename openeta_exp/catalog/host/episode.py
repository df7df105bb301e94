"""One episode: an adapter and a policy, from reset to verdict."""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from openeta_exp.catalog.host.adapter import Adapter, merged
from openeta_exp.catalog.host.blame import ADAPTER, POLICY, Blame, BrokenEpisodeError
from openeta_exp.catalog.host.judging import Judgement
from openeta_exp.catalog.host.perturbing import Timeline
from openeta_exp.catalog.host.recording import Recorder
from openeta_exp.catalog.host.tracking import Access, Tracked
from openeta_exp.catalog.host.values import Json, digest_of, images_of, plain
from openeta_exp.domain.counting import counted

_WIRE_TYPES = (str, int, float, bool, list)


class Policy(Protocol):
    """See `openeta_exp.ports.policy.Policy`."""

    def start_episode(self, task: Mapping[str, Any]) -> None: ...

    def act(self, observation: dict[str, Any]) -> Mapping[str, Any]: ...

    def end_episode(self, result: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Episode:
    """What to run, in the words of the request."""

    instruction: str
    provider_ref: Mapping[str, Any]
    scenario: Mapping[str, Any]
    perturbations: tuple[Mapping[str, Any], ...]
    episode_idx: int
    max_steps: int
    seed: int


@dataclass
class Report:
    """What happened, as far as it got."""

    steps: int = 0
    success: bool = False
    finished: bool = False
    """The adapter ended the episode; otherwise the step limit did."""
    result: dict[str, Json] = field(default_factory=dict)
    metrics: dict[str, Json] = field(default_factory=dict)
    phases: dict[str, Json] = field(default_factory=dict)
    unmet: list[str] = field(default_factory=list)
    reward: float = 0.0
    initial_digest: str | None = None
    initial_images: dict[str, str] = field(default_factory=dict)
    observation_keys: list[str] = field(default_factory=list)
    task_access: dict[str, Json] = field(default_factory=dict)
    task_mutated: bool = False
    receipts: list[Json] = field(default_factory=list)
    latency_ns: list[int] = field(default_factory=list)
    action_dim: int | None = None
    actions_constant: bool = True
    failure: BrokenEpisodeError | None = None


def run_episode(
    adapter: Adapter,
    policy: Policy,
    episode: Episode,
    *,
    judgement: Judgement,
    recorder: Recorder,
    action_dim: int | None = None,
) -> Report:
    """Run to the end; a failure is part of the report, and the policy is always told it is over.

    Args:
        action_dim: Length of an action, where it is known; None takes the first one's.
    """
    report = Report(action_dim=action_dim)
    access = Access()
    told = False
    blame = Blame("reset")
    try:
        with blame:
            base = adapter.task(episode.instruction, episode.provider_ref)
            given = merged(base, episode.scenario, episode_idx=episode.episode_idx)
            task = Tracked(given, access)
            timeline = Timeline(episode.perturbations, adapter.instance)
            judgement.start()
            seed_globals(episode.seed)
            adapter.driver.start(task, recorder)
            blame.phase = "make_obs"
            observation = adapter.driver.observe()
            _note_start(report, observation)
            blame.phase = "start_episode"
            told = True
            policy.start_episode(wire_task(given))
            _drive(
                adapter, policy, episode,
                observation=observation, timeline=timeline, judgement=judgement,
                recorder=recorder, report=report, blame=blame,
            )  # fmt: skip
            blame.phase = "get_step_result"
            _finish(adapter, judgement, recorder, report, blame)
    except BrokenEpisodeError as error:
        report.failure = error
    report.task_access = access.report()
    report.task_mutated = bool(access.written)
    if "timeline" in locals():
        report.receipts = timeline.receipts()
    if told:
        _tell_end(policy, report)
    return report


def _drive(
    adapter: Adapter,
    policy: Policy,
    episode: Episode,
    *,
    observation: dict[str, Any],
    timeline: Timeline,
    judgement: Judgement,
    recorder: Recorder,
    report: Report,
    blame: Blame,
) -> None:
    """The loop. Everything that is not needed for every episode is behind a flag."""
    driver, clock, latency = adapter.driver, time.perf_counter_ns, report.latency_ns
    perturbed, watched = bool(episode.perturbations), judgement.watches_steps
    first: np.ndarray | None = None
    for step in range(episode.max_steps):
        if perturbed:
            blame.phase = "perturb"
            observation = timeline.change_observation(step, observation)
        blame.phase = "act"
        began = clock()
        reply = policy.act(observation)
        latency.append(clock() - began)
        action = checked_action(reply, report.action_dim)
        numbers = action["actions"]
        if first is None:
            first, report.action_dim = numbers, numbers.size
        elif report.actions_constant and (numbers != first).any():
            report.actions_constant = False
        if perturbed:
            blame.phase = "perturb"
            timeline.change_world(step)
        blame.phase = "step"
        driver.act(action)
        report.steps = step + 1
        if watched:
            blame.phase = "judge"
            judgement.watch(step, {**driver.step_facts(), **recorder.last_row(), "steps": step + 1})
        blame.phase = "check_done"
        if driver.done():
            report.finished = True
            return
        blame.phase = "make_obs"
        observation = driver.observe()


def reported_success(result: Mapping[str, Any]) -> bool:
    """What an adapter says came of an episode.

    Raises:
        BrokenEpisodeError: It does not say.
    """
    if not isinstance(result, Mapping) or "success" not in result:
        raise BrokenEpisodeError(
            "get_step_result must return a mapping with `success`",
            failure_class=ADAPTER,
            code="result_without_success",
        )
    success = result["success"]
    if not isinstance(success, bool | np.bool_) and success not in (0, 1):
        raise BrokenEpisodeError(
            f"success = {success!r} is neither true nor false",
            failure_class=ADAPTER,
            code="result_without_success",
        )
    return bool(success)


def _finish(
    adapter: Adapter, judgement: Judgement, recorder: Recorder, report: Report, blame: Blame
) -> None:
    result = adapter.driver.result()
    reported_success(result)
    report.result = {str(key): plain(value) for key, value in result.items()}
    facts = adapter.driver.step_facts()
    reward = plain(facts["reward"])
    report.reward = float(reward) if isinstance(reward, int | float) else 0.0
    blame.phase = "judge"
    verdict = judgement.judge({**facts, **recorder.last_row(), **result, "steps": report.steps})
    report.success = verdict.success
    report.metrics, report.phases, report.unmet = verdict.metrics, verdict.phases, verdict.unmet


def checked_action(reply: Mapping[str, Any], dim: int | None) -> dict[str, Any]:
    """The policy's reply with `actions` as a finite `[dim]` float32 vector.

    float32, because that is what every vla-eval server sends: a double takes another path.

    Raises:
        BrokenEpisodeError: The reply cannot be applied.
    """
    if not isinstance(reply, Mapping) or reply.get("actions") is None:
        raise _unusable("the reply has no `actions`")
    actions = np.asarray(reply["actions"])
    if actions.dtype.kind not in "biuf":
        raise _unusable(f"actions are of type {actions.dtype}, not numbers")
    actions = actions.astype(np.float32)
    if actions.ndim != 1:
        raise _unusable(
            f"actions have the shape {list(actions.shape)}; one action is needed, "
            "set chunk_size for a policy that returns several"
        )
    if dim is not None and actions.size != dim:
        raise _unusable(
            f"actions have {counted(actions.size, 'number')}, where {dim} were used before"
        )
    # The product overflows only for absurd values, and then the exact test decides.
    if not math.isfinite(float(actions.dot(actions))) and not np.isfinite(actions).all():
        raise _unusable(f"actions are not finite: {actions.tolist()}")
    return {**reply, "actions": actions}


def _unusable(message: str) -> BrokenEpisodeError:
    return BrokenEpisodeError(message, failure_class=POLICY, code="policy_action_unusable")


def wire_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """What a policy is told of the task: scalars and lists, numpy scalars as Python ones."""
    told = {}
    for key, value in task.items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, _WIRE_TYPES):
            told[key] = value
    return told


def seed_globals(seed: int) -> None:
    """Make draws from the global generators a function of scenario and repeat."""
    random.seed(seed)
    np.random.seed(seed % 2**32)


def seed_of(scenario_digest: str, repeat: int) -> int:
    return int.from_bytes(
        hashlib.sha256(f"{scenario_digest}/{repeat}".encode()).digest()[:4], "big"
    )


def _note_start(report: Report, observation: Mapping[str, Any]) -> None:
    report.initial_digest = digest_of(observation)
    report.initial_images = images_of(observation)
    report.observation_keys = sorted(flat_keys(observation))


def flat_keys(observation: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of everything in an observation that is not itself a mapping."""
    keys: list[str] = []
    for key, value in observation.items():
        if isinstance(value, Mapping):
            keys += flat_keys(value, f"{prefix}{key}.")
        else:
            keys.append(f"{prefix}{key}")
    return keys


def _tell_end(policy: Policy, report: Report) -> None:
    """Also after a failure: a server keeps a session's state until it hears of the end."""
    result: dict[str, Any] = {"metrics": report.result, "steps": report.steps}
    try:
        with Blame("end_episode"):
            policy.end_episode(result)
    except BrokenEpisodeError:
        # The verdict stands; a policy that cannot end is found out when the next one starts.
        return
