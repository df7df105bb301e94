"""Error control over many arms, many tasks and many generations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from openeta_exp.domain.gate import Tier
from openeta_exp.domain.verdict import Decision, Ledger


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given: reject where they are at most alpha."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return tuple(adjusted)


@dataclass(frozen=True, slots=True, kw_only=True)
class LondRule:
    """Levels of the promotion ledger: LOND with equal weights over a planned horizon.

    With p-values it controls the false discovery rate for independent tests. With e-values
    (promote when the evidence reaches `1 / level`) the same levels hold under any dependence,
    which is what shared baseline runs or shared keys need.

    Attributes:
        horizon: Planned number of tests; beyond it nothing is left to spend.
        fdr: Wanted share of false ones among promotions.
        cap: Largest level a single test may use.
    """

    horizon: int
    fdr: float = 0.20
    cap: float = 0.05

    def __post_init__(self) -> None:
        if self.horizon < 1 or not (0 < self.fdr < 1 and 0 < self.cap < 1):
            raise ValueError("need a horizon of at least one test, and fdr and cap in (0, 1)")

    def level(self, history: Sequence[bool]) -> float:
        """Alpha of the next test, given which of the earlier ones promoted; 0 when used up."""
        if len(history) >= self.horizon:
            return 0.0
        return min(self.cap, self.fdr / self.horizon * (1 + sum(history)))


def alpha_cap(
    tier: Tier, *, horizon: int, fdr: float, history: Sequence[bool] = ()
) -> float | None:
    """The level the ledger leaves the next test of a lineage; None leaves the gate its own.

    Only what may be published is on the ledger. A promotion of the local tier claims no more than
    that the next generation starts from it, and the gate's alpha alone bounds it.

    Args:
        horizon: Tests that are planned.
        history: Which of the earlier ones promoted.
    """
    if tier is Tier.LOCAL:
        return None
    return LondRule(horizon=horizon, fdr=fdr).level(history)


def next_level(ledger: Ledger) -> float:
    """Alpha that the ledger leaves for the next test; 0 when its horizon is used up."""
    rule = LondRule(horizon=ledger.horizon, fdr=ledger.fdr, cap=ledger.cap)
    return rule.level([entry.decision is Decision.PROMOTE for entry in ledger.entries])


def lord_plus_plus_levels(
    p_values: Sequence[float], *, alpha: float = 0.05, initial_wealth: float = 0.025
) -> tuple[float, ...]:
    """Levels of LORD++ along a stream of p-values. For comparison only.

    Its first levels are about `alpha / 37`, useless for the few tests of an experiment.
    """
    levels: list[float] = []
    rejected: list[int] = []
    for test, p_value in enumerate(p_values, start=1):
        level = initial_wealth * _lord_weight(test)
        for rank, earlier in enumerate(rejected):
            wealth = alpha - initial_wealth if rank == 0 else alpha
            level += wealth * _lord_weight(test - earlier)
        levels.append(level)
        if p_value <= level:
            rejected.append(test)
    return tuple(levels)


def _lord_weight(lag: int) -> float:
    return 0.07720838 * math.log(max(lag, 2)) / (lag * math.exp(math.sqrt(math.log(lag))))
