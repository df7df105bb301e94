"""Would this comparison mean anything? A handful of resets and one episode per policy tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from openeta_exp.catalog.checks_conventions import judge_conventions
from openeta_exp.catalog.checks_policy import PoliciesReport, Twins, judge_policies
from openeta_exp.catalog.checks_reset import (
    SETTLE_STEPS,
    ResetReport,
    judge_resets,
    plan_resets,
)
from openeta_exp.catalog.checks_static import check_static
from openeta_exp.catalog.expansion import Binding, Expansion, ScenarioRow
from openeta_exp.catalog.findings import CheckReport, Finding, invalid, suspect, unusable
from openeta_exp.catalog.host.perturbing import PRIMITIVES
from openeta_exp.catalog.messages import AdapterDescription, PolicyDescription
from openeta_exp.catalog.runner import CatalogRunner
from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import digest
from openeta_exp.errors import CatalogError, PolicyError, SimulatorError
from openeta_exp.ports.policy import PolicyRecipe

_PROBED_SCENARIOS = 3
_MOST_TWIN_PROBES = 5
"""Further episodes in which policies that answer alike may still turn out to be two."""


async def check_catalog(
    expansion: Expansion,
    runner: CatalogRunner,
    policies: Mapping[str, PolicyRecipe],
    *,
    identities: Mapping[str, str] | None = None,
) -> CheckReport:
    """Run every check that needs no complete comparison.

    Every task is reset some times; every policy runs one episode per scene. What cannot be
    built or reached is a finding, not an exception.

    Args:
        identities: What makes each policy what it is; None takes its recipe.
    """
    findings = list(_static(expansion))
    described: dict[str, PolicyDescription] = {}
    for name, recipe in policies.items():
        try:
            described[name] = await runner.describe_policy(recipe)
        except (PolicyError, SimulatorError) as error:
            findings.append(unusable("policy_unusable", f"policy {name}", error))
    probed: set[str] = set()
    known = identities or {name: digest(each) for name, each in policies.items()}
    twins = Twins(known)
    for env_id, binding in expansion.bindings.items():
        rows = [row for row in expansion.rows if row.env_id == env_id and row.repeat == 0]
        if not rows:
            continue
        try:
            adapter = await runner.describe_adapter(env_id)
            findings += [*_limits(adapter, binding), *_primitives(adapter, rows)]
            action_dim = _action_dim(adapter)
            if binding.scene_digest not in probed and described:
                probed.add(binding.scene_digest)
                ready = {name: policies[name] for name in described}
                report = await _probe_policies(runner, env_id, binding, rows, policies=ready)
                findings += judge_policies(report, described)
                twins.add(report.fingerprints)
                for name, each in described.items():
                    findings += judge_conventions(name, each, adapter, binding.scene)
                action_dim = action_dim or report.action_dim
            findings += await _check_resets(runner, env_id, binding, rows, action_dim=action_dim)
        except (CatalogError, PolicyError, SimulatorError) as error:
            findings.append(unusable("adapter_unusable", binding.named, error))
    await _tell_apart(expansion, runner, policies, twins)
    findings += twins.findings()
    return CheckReport.of(list({each.model_dump_json(): each for each in findings}.values()))


async def _tell_apart(
    expansion: Expansion,
    runner: CatalogRunner,
    policies: Mapping[str, PolicyRecipe],
    twins: Twins,
) -> None:
    """Give policies that answer alike other tasks and other scenarios to differ on."""
    for env_id, rows in _elsewhere(expansion)[:_MOST_TWIN_PROBES]:
        if not twins.alike:
            return
        binding = expansion.bindings[env_id]
        try:
            report = await _probe_policies(
                runner,
                env_id,
                binding,
                rows,
                policies={name: policies[name] for name in twins.alike},
            )
        except (CatalogError, PolicyError, SimulatorError):
            # Found and told by the other checks of this task.
            continue
        twins.add(report.fingerprints)


def _elsewhere(expansion: Expansion) -> list[tuple[str, list[ScenarioRow]]]:
    """Environments with rows whose middle one was not probed yet: other tasks, then other ends."""
    first_of_scene: set[str] = set()
    tasks: list[tuple[str, list[ScenarioRow]]] = []
    ends: list[tuple[str, list[ScenarioRow]]] = []
    for env_id, binding in expansion.bindings.items():
        rows = [row for row in expansion.rows if row.env_id == env_id and row.repeat == 0]
        if not rows:
            continue
        if binding.scene_digest in first_of_scene:
            tasks.append((env_id, rows))
        first_of_scene.add(binding.scene_digest)
        ends += [(env_id, [row]) for row in (rows[0], rows[-1]) if row is not rows[len(rows) // 2]]
    return [*tasks, *ends]


def _static(expansion: Expansion) -> Iterator[Finding]:
    scanned: set[tuple[str, tuple[str, ...]]] = set()
    for row in expansion.rows:
        external = expansion.bindings[row.env_id].scene.external
        declared = tuple(row.params)
        if external is not None and (external.provider, declared) not in scanned:
            scanned.add((external.provider, declared))
            yield from check_static(external.provider, declared, expansion.search_path)


async def _check_resets(
    runner: CatalogRunner,
    env_id: str,
    binding: Binding,
    rows: Sequence[ScenarioRow],
    *,
    action_dim: int | None,
) -> list[Finding]:
    findings: list[Finding] = []
    for set_id in dict.fromkeys(row.scenario_set_id for row in rows):
        probe = plan_resets([row for row in rows if row.scenario_set_id == set_id])
        request: JsonObject = {
            "do": "resets",
            "fresh": False,
            "probe": {
                **_selected(binding),
                "cases": probe.cases,
                "pairs": [list(pair) for pair in probe.pairs],
                "settle_steps": SETTLE_STEPS,
                "action_dim": action_dim,
            },
        }
        report = ResetReport.model_validate(await runner.ask(request, env_id=env_id))
        again: JsonObject = {
            "do": "resets",
            "fresh": True,
            "probe": {
                **_selected(binding),
                "cases": {"first": probe.cases["first"]},
                "pairs": [],
                "settle_steps": 0,
                "action_dim": None,
            },
        }
        fresh = ResetReport.model_validate(await runner.ask(again, env_id=env_id))
        findings += judge_resets(report, probe, fresh=fresh)
    return findings


async def _probe_policies(
    runner: CatalogRunner,
    env_id: str,
    binding: Binding,
    rows: Sequence[ScenarioRow],
    *,
    policies: Mapping[str, PolicyRecipe],
) -> PoliciesReport:
    middle = len(rows) // 2
    chosen = [rows[middle], *(rows[at] for at in sorted({0, len(rows) - 1} - {middle}))]
    request: JsonObject = {
        "do": "policies",
        "policies": {name: each.model_dump(mode="json") for name, each in policies.items()},
        "probe": {
            **_selected(binding),
            "scenarios": [row.params for row in chosen[:_PROBED_SCENARIOS]],
            "max_steps": binding.task.max_steps,
        },
    }
    return PoliciesReport.model_validate(await runner.ask(request, env_id=env_id))


def _selected(binding: Binding) -> JsonObject:
    return {"instruction": binding.task.instruction, "provider_ref": binding.task.provider_ref}


def _limits(adapter: AdapterDescription, binding: Binding) -> Iterator[Finding]:
    own = adapter.metadata.get("max_steps")
    if isinstance(own, int) and own != binding.task.max_steps:
        yield suspect(
            "step_limits_differ",
            f"task {binding.task.id} stops after {counted(binding.task.max_steps, 'step')}, "
            f"the adapter's own limit is {own}",
        )


def _primitives(adapter: AdapterDescription, rows: Sequence[ScenarioRow]) -> Iterator[Finding]:
    for effect in {str(each["type"]) for row in rows for each in row.perturbations}:
        lacking = [name for name in PRIMITIVES[effect] if name not in adapter.methods]
        if lacking:
            yield invalid(
                "perturbation_impossible",
                f"{effect} needs the adapter's {', '.join(lacking)}",
            )


def _action_dim(adapter: AdapterDescription) -> int | None:
    """Length of an action if the adapter declares it; None leaves it to the probe."""
    spec = adapter.action_spec or {}
    dims = [each.get("dims") for each in spec.values() if isinstance(each, dict)]
    total = sum(dim for dim in dims if isinstance(dim, int))
    return total or None
