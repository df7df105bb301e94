"""Scenarios that were run more than once: one pair each for the gate, every run for the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import Gate, Guardrails
from openeta_exp.domain.pair import (
    ArmObservation,
    PairKey,
    PairObservation,
    PairStatus,
    Side,
    total_cost,
)
from openeta_exp.domain.policy_comparison import Difference
from openeta_exp.domain.verdict import (
    Bounds,
    Decision,
    Effect,
    Exclusions,
    GateVerdict,
    Ground,
    Reason,
    TaskEffect,
    decide,
    weightiest_first,
)
from openeta_exp.statistics.clustered_intervals import clustered_difference
from openeta_exp.statistics.gate import judges_exclusions
from openeta_exp.statistics.gate_evidence import exclusions_of
from openeta_exp.statistics.intervals import tango
from openeta_exp.statistics.paired import mcnemar_exact

LEVEL = 0.95


def by_scenario(comparison: PairedComparison, *, repeats: int) -> PairedComparison:
    """Repeats of one scenario as one pair: who solved it more often.

    Repeats are not independent of each other, scenarios are. If neither policy is better, either
    is as likely to come out ahead on a scenario, so tests of signs stay exact. A scenario counts
    once at least half of its repeats have a verdict on both sides, those that were solved at reset
    left out; the last one may be under way. That attempts broke is kept in any case.
    """
    if repeats == 1:
        return comparison
    found: dict[PairKey, list[PairObservation]] = {}
    for pair in comparison.observations:
        found.setdefault(pair.key.unit, []).append(pair)
    whole = {unit: pairs for unit, pairs in found.items() if len(pairs) == repeats}
    return comparison.model_copy(
        update={
            "scheduled": math.ceil(comparison.scheduled / repeats),
            "observations": tuple(_merged(unit, pairs) for unit, pairs in whole.items()),
            "overrun": (),
        }
    )


def _merged(unit: PairKey, pairs: Sequence[PairObservation]) -> PairObservation:
    valid = [pair for pair in pairs if pair.valid]
    broken = [pair for pair in pairs if not (pair.valid or pair.solved_at_reset)]
    if not valid or len(valid) < len(broken):
        one = (broken or pairs)[0]
        return PairObservation(
            baseline=_arm(unit, pairs, Side.BASELINE, like=one),
            candidate=_arm(unit, pairs, Side.CANDIDATE, like=one),
        )
    wins = {side: sum(pair.arm(side).objective_success for pair in valid) for side in Side}
    ahead = wins[Side.CANDIDATE] - wins[Side.BASELINE]
    tied = ahead == 0 and 2 * wins[Side.BASELINE] > len(valid)
    solved = {Side.BASELINE: ahead < 0 or tied, Side.CANDIDATE: ahead > 0 or tied}
    baseline, candidate = (
        _arm(unit, pairs, side, like=valid[0]).model_copy(
            update={
                "objective_success": solved[side],
                "status": PairStatus.SUCCESS if solved[side] else PairStatus.FAIL,
            }
        )
        for side in Side
    )
    return PairObservation(baseline=baseline, candidate=candidate)


def _arm(
    unit: PairKey, pairs: Sequence[PairObservation], side: Side, *, like: PairObservation
) -> ArmObservation:
    """One arm of a run, with what all of them took and did."""
    arms = [pair.arm(side) for pair in pairs]
    # What is solved at reset says nothing of an arm, as in a comparison without repeats.
    tried = [pair.arm(side) for pair in pairs if not pair.solved_at_reset]
    return like.arm(side).model_copy(
        update={
            "key": unit,
            "broken_attempts": sum(max(each.broken_attempts, each.broke) for each in tried),
            "cost": total_cost(each.cost for each in arms),
            "safety_violations": sum(each.safety_violations for each in arms),
            "contract_violations": sum(each.contract_violations for each in arms),
        }
    )


def difference_of(
    comparison: PairedComparison, *, repeats: int, level: float = LEVEL
) -> Difference | None:
    """Difference of success rates over all valid pairs; None if there is none."""
    pairs = comparison.pairs
    if not pairs:
        return None
    if repeats == 1:
        wins, losses = len(comparison.improved), len(comparison.regressed)
        interval = tango(wins, losses, pairs=len(pairs), level=level)
    else:
        units = [pair.key.unit for pair in pairs]
        interval = clustered_difference(comparison.differences, units, level=level)
    return Difference(
        value=math.fsum(comparison.differences) / len(pairs),
        low=interval.low,
        high=interval.high,
        level=level,
        method="tango" if repeats == 1 else "clustered",
    )


def told_of_runs(
    verdict: GateVerdict,
    comparison: PairedComparison,
    scenarios: PairedComparison,
    *,
    repeats: int,
    gate: Gate,
) -> GateVerdict:
    """A verdict on repeated scenarios, with every run counted that it rests on.

    The gate has seen scenarios, which is what its test needs. How large the difference is, and
    what broke, is a matter of runs: a scenario is no tie because it was lost once and won once,
    and is not whole because half of it is.

    Args:
        comparison: The runs.
        scenarios: The same `by_scenario`, which the gate has judged.
        repeats: More than one.
    """
    used = scenarios.observations[: len(scenarios.observations) - verdict.overrun]
    units = {pair.key for pair in used}
    runs = comparison.model_copy(
        update={
            "observations": tuple(
                pair for pair in comparison.observations if pair.key.unit in units
            ),
            "overrun": (),
        }
    )
    exclusions = _exclusions(verdict.exclusions, runs, repeats=repeats, limits=gate.guardrails)
    told = verdict.model_copy(
        update={
            "effect": _effect(verdict.effect, runs, repeats=repeats),
            "tasks": tuple(_task_effect(each, runs, repeats=repeats) for each in verdict.tasks),
            "exclusions": exclusions,
        }
    )
    if not exclusions.differential or not judges_exclusions(gate):
        return told
    return blocked(told, _exclusion_reason(exclusions, runs))


def blocked(verdict: GateVerdict, reason: Reason) -> GateVerdict:
    """A verdict that cannot promote for this reason, which replaces one of the same code."""
    left = [
        each
        for each in verdict.reasons
        if each.code != reason.code and each.ground.decision is not Decision.PROMOTE
    ]
    reasons = weightiest_first([reason, *left])
    return verdict.model_copy(
        update={"decision": decide(reasons), "reasons": reasons, "more_pairs": None}
    )


def _effect(effect: Effect, runs: PairedComparison, *, repeats: int) -> Effect:
    """Counts of scenarios, with the difference of success rates over their runs."""
    wide, narrow = (difference_of(runs, repeats=repeats, level=level) for level in (LEVEL, 0.90))
    if wide is None or narrow is None:
        return effect
    return effect.model_copy(
        update={
            "difference": wide.value,
            "tango_95": _bounds(wide),
            "tango_90": _bounds(narrow),
        }
    )


def _task_effect(effect: TaskEffect, runs: PairedComparison, *, repeats: int) -> TaskEffect:
    of_task = tuple(pair for pair in runs.observations if pair.key.task_id == effect.task_id)
    found = difference_of(
        runs.model_copy(update={"observations": of_task}), repeats=repeats, level=0.90
    )
    if found is None:
        return effect
    return effect.model_copy(update={"difference": found.value, "tango_90": _bounds(found)})


def _bounds(difference: Difference) -> Bounds:
    return Bounds(low=difference.low, high=difference.high, level=difference.level)


def _exclusions(
    of_scenarios: Exclusions, runs: PairedComparison, *, repeats: int, limits: Guardrails
) -> Exclusions:
    """What broke, run by run, and tested scenario by scenario.

    Runs of one scenario may break together, so the test of who breaks more often counts scenarios
    in which one arm alone did. The share is one of runs.
    """
    found = exclusions_of(runs, limits=limits)
    worst = by_scenario(_with_crashes_lost(runs), repeats=repeats)
    wins, losses = len(worst.improved), len(worst.regressed)
    return found.model_copy(
        update={
            "candidate_breaks": of_scenarios.candidate_breaks,
            "baseline_breaks": of_scenarios.baseline_breaks,
            "p_value": of_scenarios.p_value,
            "differential": of_scenarios.differential
            or found.share > limits.largest_excluded_share,
            "worst_case_wins": wins,
            "worst_case_losses": losses,
            "worst_case_p": mcnemar_exact(wins, losses),
        }
    )


def _with_crashes_lost(runs: PairedComparison) -> PairedComparison:
    def taken(pair: PairObservation) -> PairObservation:
        if not (pair.candidate.broke and pair.baseline.has_verdict):
            return pair
        lost = {"status": PairStatus.FAIL, "failure_class": None}
        return pair.model_copy(update={"candidate": pair.candidate.model_copy(update=lost)})

    return runs.model_copy(update={"observations": tuple(map(taken, runs.observations))})


def _exclusion_reason(found: Exclusions, runs: PairedComparison) -> Reason:
    tried = len(runs.observations) - found.solved_at_reset
    return Reason(
        ground=Ground.DIFFERENTIAL_EXCLUSION,
        message=f"{found.broken} of {counted(tried, 'pair')} of runs "
        f"({100 * found.share:.0f} %) had no verdict; attempts broke for the candidate only in "
        f"{counted(found.candidate_breaks, 'scenario')}, for the baseline only in "
        f"{found.baseline_breaks} (p={found.p_value:.3g}); were every crash of the candidate a "
        f"failure, {counted(found.worst_case_wins, 'scenario')} fixed and "
        f"{found.worst_case_losses} regressed",
    )
