"""Do scenarios reach the adapter, do they do anything, and is a reset repeatable?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from openeta_exp.catalog.expansion import ScenarioRow
from openeta_exp.catalog.findings import Finding, invalid, ok, suspect, unknown
from openeta_exp.catalog.messages import TaskAccess
from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record, canonical_json, digest
from openeta_exp.wire.explain import nearest

SETTLE_STEPS = 10
_ABOVE_NOISE = 3.0
_BIT_NOISE = 1e-6
"""Differences below this are rounding, not another start."""


class Difference(Record):
    """How far two states are apart: the largest difference of any number in them."""

    known: bool
    largest: float
    where: str
    paths: tuple[str, ...]


class StartReport(Record):
    """One reset."""

    digest: str
    keys: tuple[str, ...]
    access: TaskAccess
    done_at_reset: bool | None
    success_at_reset: bool | None
    error: str | None


class Compared(Record):
    pair: tuple[str, str]
    at_reset: Difference
    after_steps: Difference


class ResetReport(Record):
    """A worker's answer to a probe of resets."""

    cases: dict[str, StartReport]
    compared: tuple[Compared, ...]


@dataclass(frozen=True, slots=True)
class ResetProbe:
    """Which resets tell whether the parameters of one set do anything."""

    cases: JsonObject
    pairs: tuple[tuple[str, str], ...]
    extremes: Mapping[str, tuple[JsonValue, JsonValue]]
    fixed: tuple[str, ...]


def plan_resets(rows: Sequence[ScenarioRow]) -> ResetProbe:
    """The same scenario three times, then every parameter at both of its ends."""
    base = rows[len(rows) // 2].params
    cases: JsonObject = {name: _case(base) for name in ("first", "again", "once more")}
    pairs = [("first", "again"), ("again", "once more")]
    extremes: dict[str, tuple[JsonValue, JsonValue]] = {}
    for name in base:
        ends = _ends([row.params.get(name) for row in rows])
        if ends is None:
            continue
        extremes[name] = ends
        low, high = f"{name} low", f"{name} high"
        cases[low], cases[high] = (_case({**base, name: end}) for end in ends)
        pairs.append((low, high))
    fixed = tuple(name for name in base if name not in extremes)
    return ResetProbe(cases, tuple(pairs), extremes, fixed)


def _case(scenario: Mapping[str, JsonValue]) -> JsonValue:
    # One seed for all, so that only the parameter can make a difference.
    return {"scenario": dict(scenario), "episode_idx": 0, "seed": 0}


def _ends(values: Sequence[JsonValue]) -> tuple[JsonValue, JsonValue] | None:
    distinct = list({digest(value): value for value in values}.values())
    if len(distinct) < 2:
        return None
    numbers = [
        each for each in distinct if isinstance(each, int | float) and not isinstance(each, bool)
    ]
    if len(numbers) == len(distinct):
        return min(numbers), max(numbers)
    return distinct[0], distinct[-1]


def judge_resets(
    report: ResetReport, probe: ResetProbe, *, fresh: ResetReport | None = None
) -> list[Finding]:
    """What the resets say, parameter by parameter."""
    declared = [*probe.extremes, *probe.fixed]
    errors = [(name, case) for name, case in report.cases.items() if case.error is not None]
    if errors:
        (name, case), *_ = errors
        return list(_errors(name, case, declared, scenario=_scenario(probe.cases[name])))
    first = report.cases["first"]
    found = [
        *_unread(first.access, declared),
        *_written(first.access, declared),
        *_solved(report),
        *_repeatable(report, fresh),
        *_effects(report, probe),
    ]
    if probe.fixed:
        found.append(
            unknown(
                "parameter_effect",
                f"{', '.join(probe.fixed)} has one value in every scenario: nothing to compare",
            )
        )
    return found


def _scenario(case: JsonValue) -> JsonValue:
    return case["scenario"] if isinstance(case, dict) else None


def _errors(
    name: str, case: StartReport, declared: Sequence[str], *, scenario: JsonValue
) -> Iterator[Finding]:
    evidence: JsonObject = {
        "case": name,
        "scenario": scenario,
        "access": case.access.model_dump(mode="json"),
    }
    start = canonical_json(scenario).decode("utf-8")
    message = f"the adapter cannot be reset to {start}: {case.error}"
    yield invalid("reset_fails", message, evidence)
    for key in case.access.missed:
        unread = [each for each in declared if each not in case.access.read]
        yield invalid(
            "parameter_absent",
            f"the adapter asks its task for {key}, which no scenario declares; "
            f"declared and not read until then: {unread or 'none'}",
            evidence,
        )


def _unread(access: TaskAccess, declared: Sequence[str]) -> Iterator[Finding]:
    evidence: JsonObject = {"access": access.model_dump(mode="json"), "declared": list(declared)}
    unread = [name for name in declared if name not in access.read]
    if access.bulk and unread:
        yield unknown("parameter_never_read", "the adapter reads its task as a whole", evidence)
    elif unread:
        for name in unread:
            used = [f"{key} = {value}" for key, value in access.defaulted.items()]
            hint = f"; it used the defaults {used} instead" if used else ""
            guess = f"; {nearest(name, access.missed)}" if access.missed else ""
            yield invalid(
                "parameter_never_read",
                f"scenario parameter {name} reached the adapter and was never read{hint}{guess}",
                evidence,
            )
    else:
        yield ok("parameter_never_read", "every declared parameter is read", evidence)
    for name in access.optional:
        if name in declared:
            yield suspect(
                "default_hides_parameter",
                f"{name} is read with `.get`: a misspelt parameter would pass unnoticed; "
                "index the task instead",
                evidence,
            )


def _written(access: TaskAccess, declared: Sequence[str]) -> Iterator[Finding]:
    for key in access.written:
        make = invalid if key in declared else suspect
        yield make(
            "task_mutated",
            f"the adapter writes {key} into its task: the scenario on record is another one",
            {"written": list(access.written)},
        )


def _solved(report: ResetReport) -> Iterator[Finding]:
    solved = [
        name for name, case in report.cases.items() if case.success_at_reset or case.done_at_reset
    ]
    if solved:
        yield invalid(
            "success_at_reset",
            f"the episode is over before anything is done, in {len(solved)} of "
            f"{counted(len(report.cases), 'reset')}",
            {"cases": list(solved)},
        )


def _repeatable(report: ResetReport, fresh: ResetReport | None) -> Iterator[Finding]:
    noise = {tuple(each.pair): each for each in report.compared}
    warm, settled = noise["first", "again"], noise["again", "once more"]
    evidence: JsonObject = {
        "first_to_second": warm.at_reset.model_dump(mode="json"),
        "second_to_third": settled.at_reset.model_dump(mode="json"),
    }
    if settled.at_reset.largest > _BIT_NOISE:
        yield invalid(
            "unseeded_reset",
            f"one scenario starts differently every time: {settled.at_reset.where} differs by "
            f"{settled.at_reset.largest:.3g}; seed every draw from the scenario",
            evidence,
        )
    elif settled.at_reset.paths or warm.at_reset.paths:
        yield suspect(
            "reset_not_bit_identical",
            "a reset differs from its repeat by rounding, or after the first one: "
            f"{(settled.at_reset.paths or warm.at_reset.paths)[0]}",
            evidence,
        )
    else:
        yield ok("unseeded_reset", "the same scenario starts the same every time", evidence)
    if fresh is not None and fresh.cases["first"].digest != report.cases["first"].digest:
        yield suspect(
            "fresh_adapter_differs",
            "a newly built adapter starts the same scenario differently, so workers would too",
            {"reused": report.cases["first"].digest, "fresh": fresh.cases["first"].digest},
        )


def _effects(report: ResetReport, probe: ResetProbe) -> Iterator[Finding]:
    compared = {tuple(each.pair): each for each in report.compared}
    noise = compared["again", "once more"]
    for name, ends in probe.extremes.items():
        change = compared[f"{name} low", f"{name} high"]
        evidence: JsonObject = {
            "low": ends[0],
            "high": ends[1],
            "at_reset": change.at_reset.model_dump(mode="json"),
            "after_steps": change.after_steps.model_dump(mode="json"),
            "noise": noise.model_dump(mode="json"),
        }
        if _exceeds(change.at_reset, noise.at_reset):
            yield ok("parameter_effect", f"{name} changes {change.at_reset.where}", evidence)
        elif _exceeds(change.after_steps, noise.after_steps):
            yield ok(
                "parameter_effect",
                f"{name} shows only once the world moves: {change.after_steps.where}",
                {**evidence, "hidden": True},
            )
        elif change.after_steps.known or not change.at_reset.known:
            differ = change.at_reset.paths or change.after_steps.paths
            how = (
                "differ no more than one scenario from its repeat"
                if differ
                else "start and go the same way"
            )
            yield invalid(
                "parameter_effect",
                f"{name} has no effect: {ends[0]!r} and {ends[1]!r} {how}",
                evidence,
            )
        else:
            yield suspect(
                "parameter_effect", f"{name} has no effect on the start of an episode", evidence
            )


def _exceeds(change: Difference, noise: Difference) -> bool:
    return bool(change.paths) and change.largest > _ABOVE_NOISE * noise.largest


def hidden_parameters(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Parameters whose effect cannot be seen in the first observation."""
    return tuple(
        each.message.partition(" ")[0]
        for each in findings
        if each.check == "parameter_effect" and each.evidence.get("hidden")
    )
