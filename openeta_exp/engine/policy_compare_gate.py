"""A gate that is asked in both directions: is the policy better, or is the first one?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.gate import (
    AnytimeGate,
    FixedGate,
    Gate,
    NoRegressionGate,
    SequentialGate,
    StrategyThresholds,
    Terms,
)
from openeta_exp.domain.pair import (
    ArmObservation,
    PairKey,
    PairObservation,
    PairStatus,
    Side,
    total_cost,
)
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.engine.compare import GoOn
from openeta_exp.statistics.gate import Continue, judge, review

_LOOKS = 50
"""More looks at one comparison would decide hardly earlier."""
_FEWEST = 20
"""Pairs below which the rule without an error rate says nothing."""

Name = TypeVar("Name")


def sized(gate: Gate, *, units: int, tasks: int, complete: bool) -> Gate:
    """The gate as it judges a catalog.

    A catalog names its tasks itself, so there need be no more than it has. How much a policy
    computes is reported and blocks nothing. A gate that cannot stop the run has no use for
    giving up, and may use every pair there will be.

    Args:
        units: Scenarios that will be run, repeats not counted.
        complete: Whether all of them are run whatever the gate says.
    """
    guardrails = gate.guardrails.model_copy(update={"cost": None})
    common: dict[str, object] = {"guardrails": guardrails}
    if not isinstance(gate, NoRegressionGate):
        common["min_tasks"] = min(gate.min_tasks, tasks)
    match gate:
        case SequentialGate(n_min=n_min):
            most = max(units, n_min)
            if complete:
                batch = max(gate.batch, math.ceil(most / _LOOKS))
                common |= {"n_max": most, "gamma": 0.0, "batch": batch}
            else:
                common["n_max"] = min(gate.largest_n_max, most)
        case FixedGate(n_min=n_min):
            most = max(units, n_min)
            common["pairs"] = most if complete else min(gate.pairs, most)
        case AnytimeGate():
            common["n_max"] = units if complete else min(gate.n_max or units, units)
        case NoRegressionGate():
            common["strategy"] = StrategyThresholds(
                min_canary_attempts=0,
                min_held_out_attempts=_FEWEST,
                min_success_rate=0.0,
                min_tasks=1,
            )
        case _:
            assert_never(gate)
    return gate.model_copy(update=common)


def fewest_pairs(gate: Gate) -> int:
    """Pairs below which nothing is claimed."""
    return _FEWEST if isinstance(gate, NoRegressionGate) else max(gate.n_min, 1)


def exchanged(comparison: PairedComparison) -> PairedComparison:
    """The same pairs with the arms in each other's place."""

    def turned(pairs: Sequence[PairObservation]) -> tuple[PairObservation, ...]:
        return tuple(
            PairObservation(baseline=each.candidate, candidate=each.baseline) for each in pairs
        )

    return comparison.model_copy(
        update={
            "observations": turned(comparison.observations),
            "overrun": turned(comparison.overrun),
        }
    )


def by_scenario(comparison: PairedComparison, *, repeats: int) -> PairedComparison:
    """Repeats of one scenario as one pair: who solved it more often.

    Repeats are not independent of each other, scenarios are. If neither policy is better, either
    is as likely to come out ahead on a scenario, so tests of signs stay exact. A scenario counts
    once at least half of its repeats have a verdict on both sides, those that were solved at reset
    left out; the last one may be under way.
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
            baseline=one.baseline.model_copy(update={"key": unit}),
            candidate=one.candidate.model_copy(update={"key": unit}),
        )
    wins = {side: sum(pair.arm(side).objective_success for pair in valid) for side in Side}
    ahead = wins[Side.CANDIDATE] - wins[Side.BASELINE]
    mostly = 2 * wins[Side.BASELINE] > len(valid)
    return PairObservation(
        baseline=_arm(unit, pairs, Side.BASELINE, won=ahead < 0 or (ahead == 0 and mostly)),
        candidate=_arm(unit, pairs, Side.CANDIDATE, won=ahead > 0 or (ahead == 0 and mostly)),
    )


def _arm(
    unit: PairKey, pairs: Sequence[PairObservation], side: Side, *, won: bool
) -> ArmObservation:
    one = next(pair.arm(side) for pair in pairs if pair.valid)
    return one.model_copy(
        update={
            "key": unit,
            "objective_success": won,
            "status": PairStatus.SUCCESS if won else PairStatus.FAIL,
            "cost": total_cost(pair.arm(side).cost for pair in pairs),
            "safety_violations": sum(pair.arm(side).safety_violations for pair in pairs),
            "contract_violations": sum(pair.arm(side).contract_violations for pair in pairs),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Both directions of one comparison.

    Attributes:
        better: Is the candidate better than the baseline?
        worse: Is the baseline better than the candidate?
    """

    better: GateVerdict
    worse: GateVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSidedRule:
    """Ends a comparison once one direction is shown, or neither can be shown any more.

    Attributes:
        complete: Run everything; judge at the end.
        repeats: Of each scenario in the schedule, one after another.
    """

    gate: Gate
    terms: Terms
    complete: bool
    repeats: int

    def __call__(self, comparison: PairedComparison, *, over: bool) -> Judgement | GoOn:
        if over:
            return self.judged(comparison)
        if self.complete:
            return GoOn(None)
        pairs = by_scenario(comparison, repeats=self.repeats)
        answers = [
            review(each, gate=self.gate, terms=self.terms) for each in (pairs, exchanged(pairs))
        ]
        waiting = [each for each in answers if isinstance(each, Continue)]
        shown = any(isinstance(each, GateVerdict) and each.promotes for each in answers)
        if waiting and not shown:
            missing = min(each.next_look - each.pairs for each in waiting)
            return GoOn(len(comparison.pairs) + max(missing, 1) * self.repeats)
        return self.judged(comparison)

    def judged(self, comparison: PairedComparison) -> Judgement:
        """Both verdicts on the pairs there are."""
        pairs = by_scenario(comparison, repeats=self.repeats)
        return Judgement(better=self.at(None, pairs), worse=self.at(None, exchanged(pairs)))

    def at(self, level: float | None, pairs: PairedComparison) -> GateVerdict:
        """The gate's verdict on scenarios, with its alpha capped."""
        terms = self.terms
        if level is not None:
            cap = level if terms.alpha_cap is None else min(level, terms.alpha_cap)
            terms = terms.model_copy(update={"alpha_cap": cap})
        return judge(pairs, gate=self.gate, terms=terms)


def step_down(
    tests: Mapping[Name, Callable[[float], GateVerdict]], *, alpha: float
) -> dict[Name, GateVerdict]:
    """Holm's procedure over tests that are told their level.

    All are judged at `alpha / n`; the others again at `alpha / (n - k)` once k of them have
    succeeded, and so on. No true null hypothesis is rejected with a probability above alpha.
    """
    left, decided = dict(tests), dict[Name, GateVerdict]()
    while left:
        verdicts = {name: test(alpha / len(left)) for name, test in left.items()}
        succeeded = {name: each for name, each in verdicts.items() if each.promotes}
        if not succeeded:
            return decided | verdicts
        decided |= succeeded
        left = {name: test for name, test in left.items() if name not in succeeded}
    return decided
