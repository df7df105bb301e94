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
from openeta_exp.domain.pair import PairObservation
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.engine.compare import GoOn
from openeta_exp.engine.policy_compare_repeats import by_scenario, told_of_runs
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
        answers = [self._review(each) for each in (comparison, exchanged(comparison))]
        waiting = [each for each in answers if isinstance(each, Continue)]
        shown = any(isinstance(each, GateVerdict) and each.promotes for each in answers)
        if waiting and not shown:
            missing = min(each.next_look - each.pairs for each in waiting)
            return GoOn(len(comparison.pairs) + max(missing, 1) * self.repeats)
        return self.judged(comparison)

    def judged(self, comparison: PairedComparison) -> Judgement:
        """Both verdicts on the pairs there are."""
        return Judgement(
            better=self.at(None, comparison), worse=self.at(None, exchanged(comparison))
        )

    def at(self, level: float | None, comparison: PairedComparison) -> GateVerdict:
        """The gate's verdict on scenarios, with its alpha capped."""
        terms = self.terms
        if level is not None:
            cap = level if terms.alpha_cap is None else min(level, terms.alpha_cap)
            terms = terms.model_copy(update={"alpha_cap": cap})
        scenarios = by_scenario(comparison, repeats=self.repeats)
        return self._told(judge(scenarios, gate=self.gate, terms=terms), comparison, scenarios)

    def _review(self, comparison: PairedComparison) -> Continue | GateVerdict:
        scenarios = by_scenario(comparison, repeats=self.repeats)
        found = review(scenarios, gate=self.gate, terms=self.terms)
        if isinstance(found, Continue):
            return found
        return self._told(found, comparison, scenarios)

    def _told(
        self, verdict: GateVerdict, comparison: PairedComparison, scenarios: PairedComparison
    ) -> GateVerdict:
        if self.repeats == 1:
            return verdict
        return told_of_runs(verdict, comparison, scenarios, repeats=self.repeats, gate=self.gate)


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
