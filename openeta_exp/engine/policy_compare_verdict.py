"""Paired outcomes of policies -> where each of them stands against the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import Gate, NoRegressionGate
from openeta_exp.domain.pair import PairObservation, PairOutcome
from openeta_exp.domain.policy_comparison import Difference, Equivalence, PairCounts, Standing
from openeta_exp.domain.verdict import Decision, GateVerdict, Ground, Reason
from openeta_exp.engine.policy_compare_gate import (
    Judgement,
    TwoSidedRule,
    exchanged,
    fewest_pairs,
    sized,
    step_down,
)
from openeta_exp.engine.policy_compare_repeats import blocked, by_scenario, difference_of
from openeta_exp.statistics.gate import effective_alpha

_LEVEL = 0.95
_DISQUALIFYING = (Ground.INCOMPARABLE, Ground.DIFFERENTIAL_EXCLUSION)
"""Grounds on which nothing at all may be claimed."""

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One policy against the first, over all tasks or on one of them.

    Attributes:
        comparison: The pairs themselves, repeats apart.
        reasons: Sentences, the weightiest first.
        by_task: Empty if it is one task only.
    """

    comparison: PairedComparison
    judgement: Judgement
    standing: Standing
    reasons: tuple[str, ...]
    counts: PairCounts
    difference: Difference | None
    equivalence: Equivalence | None
    by_task: Mapping[str, Judged]

    @property
    def announced(self) -> GateVerdict:
        """The verdict for whoever knows one direction only: a policy that got worse is rejected."""
        better = self.judgement.better
        if self.standing is not Standing.REGRESSED or better.decision is Decision.REJECT:
            return better
        reasons = (Reason(ground=Ground.WORSE, message=self.reasons[0]),)
        return better.model_copy(update={"decision": Decision.REJECT, "reasons": reasons})


def judge_all(
    comparisons: Mapping[str, PairedComparison], *, rule: TwoSidedRule, margin: float | None
) -> dict[str, Judged]:
    """Judge every policy over all tasks, and on each task by itself.

    Both families have an error rate of their own, in each direction: Holm over the policies, and
    Holm over all tasks of all policies. A policy that got worse on a task has regressed, however
    well it does elsewhere.

    Args:
        comparisons: By the policy's name.
        margin: Largest difference that would not matter; None tests no equivalence.
    """
    single = {
        (name, task_id): part
        for name, comparison in comparisons.items()
        for task_id, part in _by_task(comparison).items()
    }
    tasks = _family(
        single, {key: _for_task(rule, part) for key, part in single.items()}, margin=margin
    )
    pooled = _family(comparisons, dict.fromkeys(comparisons, rule), margin=margin)
    return {
        name: _with_tasks(
            judged, {task_id: each for (owner, task_id), each in tasks.items() if owner == name}
        )
        for name, judged in pooled.items()
    }


def _by_task(comparison: PairedComparison) -> dict[str, PairedComparison]:
    found: dict[str, list[PairObservation]] = {}
    for pair in comparison.observations:
        found.setdefault(pair.key.task_id, []).append(pair)
    return {
        task_id: comparison.model_copy(
            update={"observations": tuple(pairs), "overrun": (), "scheduled": len(pairs)}
        )
        for task_id, pairs in found.items()
    }


def _for_task(rule: TwoSidedRule, part: PairedComparison) -> TwoSidedRule:
    units = len(by_scenario(part, repeats=rule.repeats).observations)
    return replace(rule, gate=sized(rule.gate, units=units, tasks=1, complete=rule.complete))


def _family(
    comparisons: Mapping[Name, PairedComparison],
    rules: Mapping[Name, TwoSidedRule],
    *,
    margin: float | None,
) -> dict[Name, Judged]:
    turned = {name: exchanged(each) for name, each in comparisons.items()}
    better, worse = (
        _stepped({name: (rules[name], each) for name, each in sides.items()})
        for sides in (comparisons, turned)
    )
    return {
        name: _judged(
            comparison,
            Judgement(better=better[name], worse=worse[name]),
            rule=rules[name],
            margin=margin,
        )
        for name, comparison in comparisons.items()
    }


def _stepped(
    tests: Mapping[Name, tuple[TwoSidedRule, PairedComparison]],
) -> dict[Name, GateVerdict]:
    levels = {effective_alpha(rule.gate, rule.terms) for rule, _ in tests.values()} - {None}
    if not levels:
        # The rule without an error rate has none to divide.
        return {name: rule.at(None, each) for name, (rule, each) in tests.items()}
    judges = {name: partial(rule.at, comparison=each) for name, (rule, each) in tests.items()}
    return step_down(judges, alpha=max(level for level in levels if level is not None))


def _judged(
    comparison: PairedComparison,
    judgement: Judgement,
    *,
    rule: TwoSidedRule,
    margin: float | None,
) -> Judged:
    difference = difference_of(comparison, repeats=rule.repeats)
    equivalence = None
    if margin is not None and difference is not None:
        equivalence = _equivalence(comparison, judgement, rule=rule, margin=margin)
    standing, reasons = _standing(judgement, equivalence, gate=rule.gate)
    return Judged(
        comparison=comparison,
        judgement=judgement,
        standing=standing,
        reasons=reasons,
        counts=counts_of(comparison.observations),
        difference=difference,
        equivalence=equivalence,
        by_task={},
    )


def _standing(
    judgement: Judgement, equivalence: Equivalence | None, *, gate: Gate
) -> tuple[Standing, tuple[str, ...]]:
    better, worse = judgement.better, judgement.worse
    told = tuple(reason.message for reason in better.reasons)
    grounds = {reason.ground for reason in better.reasons}
    if _shown(worse):
        return Standing.REGRESSED, (_harm(worse),)
    if grounds & {Ground.SAFETY, Ground.CONTRACT, Ground.REGRESSION}:
        return Standing.REGRESSED, told
    if _shown(better):
        return Standing.BETTER, told
    if better.promotes:
        return Standing.NOT_WORSE, told
    if (
        equivalence is None
        or better.effect.pairs < fewest_pairs(gate)
        or grounds & set(_DISQUALIFYING)
        or isinstance(gate, NoRegressionGate)
    ):
        return Standing.INCONCLUSIVE, told
    margin = counted(100 * equivalence.margin, "point", spec=".0f")
    bounds = f"{100 * equivalence.low:+.1f}..{100 * equivalence.high:+.1f} points"
    if equivalence.equivalent:
        words = f"differs by less than {margin} ({bounds})"
        return Standing.EQUIVALENT, (words, *told)
    if equivalence.not_worse:
        words = f"loses less than {margin} ({bounds})"
        return Standing.NOT_WORSE, (words, *told)
    return Standing.INCONCLUSIVE, told


def _shown(verdict: GateVerdict) -> bool:
    """The one direction a verdict is about is beyond chance."""
    return verdict.promotes and any(each.ground is Ground.SUPERIOR for each in verdict.reasons)


def _harm(worse: GateVerdict) -> str:
    effect = worse.effect
    test = "" if worse.p_value is None else f"; p={worse.p_value:.3g}"
    level = "" if worse.alpha is None else f" at level {worse.alpha:.3g}"
    return (
        f"worse beyond chance: {effect.wins} regressed and {effect.losses} fixed in the first "
        f"{counted(effect.pairs, 'scenario')}{test}{level}"
    )


def _with_tasks(judged: Judged, by_task: Mapping[str, Judged]) -> Judged:
    harmed = [name for name, each in by_task.items() if each.standing is Standing.REGRESSED]
    if not harmed or judged.standing is Standing.REGRESSED or len(by_task) == 1:
        return replace(judged, by_task=by_task)
    words = [f"worse beyond chance on {name.rpartition(': ')[2]}" for name in harmed]
    return replace(
        judged,
        standing=Standing.REGRESSED,
        reasons=(*words, *judged.reasons),
        by_task=by_task,
    )


def withheld(judged: Judged, *, missing: int, scheduled: int) -> Judged:
    """What is left of an answer while too many pairs have no verdict.

    They may be missing because a policy breaks where it would lose, and the same command can still
    bring them: nothing in favour of the policy stands, neither over all tasks nor on one of them.
    That it got worse does.
    """
    reason = Reason(
        ground=Ground.TOO_FEW_PAIRS,
        subject="missing",
        message=f"{missing} of {counted(scheduled, 'pair')} without a verdict, more than "
        "catalog.max_missing_share lets pass",
    )
    return _withheld(judged, reason)


def _withheld(judged: Judged, reason: Reason) -> Judged:
    better = blocked(judged.judgement.better, reason)
    left = replace(
        judged,
        judgement=replace(judged.judgement, better=better),
        by_task={task_id: _withheld(each, reason) for task_id, each in judged.by_task.items()},
    )
    if judged.standing is Standing.REGRESSED:
        return left
    told = tuple(each.message for each in better.reasons)
    return replace(left, standing=Standing.INCONCLUSIVE, reasons=told)


def counts_of(pairs: Sequence[PairObservation]) -> PairCounts:
    found = [pair.outcome for pair in pairs]
    return PairCounts(
        both=found.count(PairOutcome.TIED_SUCCESS),
        baseline_only=found.count(PairOutcome.REGRESSED),
        candidate_only=found.count(PairOutcome.IMPROVED),
        neither=found.count(PairOutcome.TIED_FAILURE),
        excluded=found.count(PairOutcome.EXCLUDED),
    )


def _equivalence(
    comparison: PairedComparison, judgement: Judgement, *, rule: TwoSidedRule, margin: float
) -> Equivalence:
    """Two one-sided tests at alpha, or at half of it and valid at any stop if it may stop."""
    alpha = effective_alpha(rule.gate, rule.terms) or 1 - _LEVEL
    level = 1 - 2 * alpha if rule.complete else _LEVEL
    if not rule.complete and rule.repeats == 1:
        bounds = judgement.better.effect.anytime_95
        low, high = bounds.low, bounds.high
    else:
        seen = difference_of(comparison, repeats=rule.repeats, level=level)
        assert seen is not None, "only comparisons with pairs are tested"
        low, high = seen.low, seen.high
    return Equivalence(margin=margin, low=low, high=high, level=level)
