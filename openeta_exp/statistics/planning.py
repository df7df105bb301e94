"""How many pairs a wanted gain costs, before anything is run."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.statistics.agent_model import AgentModel, PairRates, identical_discordance
from openeta_exp.statistics.operating import (
    OperatingPoint,
    fixed_operating_point,
    sequential_operating_point,
)
from openeta_exp.statistics.sample_size import pairs_needed
from openeta_exp.statistics.sequential_design import SequentialDesign


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What it takes to find one gain.

    Attributes:
        discordance: Expected share of pairs on which the arms differ.
        approximate_pairs: Connor's formula.
        n_max: Smallest fixed size at which the exact test has the wanted power.
        if_gain, if_equal, if_harm: The sequential test with that `n_max`, for a candidate that is
            better by the gain, equal, and worse by it.
    """

    effect: float
    discordance: float
    approximate_pairs: int
    n_max: int
    if_gain: OperatingPoint
    if_equal: OperatingPoint
    if_harm: OperatingPoint


def plan(
    model: AgentModel,
    *,
    effect: float,
    alpha: float = 0.05,
    power: float = 0.8,
    runs: int = 5_000,
    seed: int = 0,
) -> Plan:
    """Size a comparison that should promote a candidate better by `effect` (a rate).

    Raises:
        ValueError: If the effect is not positive, or no agent could be that much better or worse.
    """
    rates = model.against(effect)
    approximate = connor_pairs(rates, effect=effect, alpha=alpha, power=power)
    n_max = exact_pairs_needed(model, effect=effect, alpha=alpha, power=power)
    design = SequentialDesign(
        alpha=alpha,
        n_max=n_max,
        n_min=min(SequentialDesign().n_min, n_max),
        delta_min=effect,
        planned_discordance=max(identical_discordance(model.success_rate, model.icc), effect),
    )

    def point(true_effect: float) -> OperatingPoint:
        return sequential_operating_point(model.against(true_effect), design, runs=runs, seed=seed)

    return Plan(
        effect=effect,
        discordance=rates.discordance,
        approximate_pairs=approximate,
        n_max=n_max,
        if_gain=point(effect),
        if_equal=point(0.0),
        if_harm=point(max(-effect, -model.success_rate)),
    )


def connor_pairs(rates: PairRates, *, effect: float, alpha: float, power: float) -> int:
    """The textbook size for the rates of a gain."""
    # Where a candidate only ever wins, the discordance is the effect, up to rounding below it.
    discordance = min(max(rates.discordance, effect), 1.0)
    return pairs_needed(effect, discordance=discordance, alpha=alpha, power=power)


def exact_pairs_needed(
    model: AgentModel, *, effect: float, alpha: float = 0.05, power: float = 0.8
) -> int:
    """First size at which the exact one-sided test has the wanted power, enumerated."""
    rates = model.against(effect)
    connor = connor_pairs(rates, effect=effect, alpha=alpha, power=power)
    # The exact test is the weaker one: it needs more than the formula says, never half of it.
    size = max(1, connor // 2)
    while fixed_operating_point(rates, pairs=size, alpha=alpha).promote < power:
        size += 1
    return size


def more_pairs_needed(
    wins: int, losses: int, *, pairs: int, alpha: float, n_min: int = 1, power: float = 0.8
) -> int | None:
    """Further pairs that would probably decide, were the effect seen so far the true one.

    None if the candidate is not ahead: then no number of pairs would promote it.

    Args:
        n_min: Pairs before the gate decides anything.
    """
    if wins <= losses or pairs == 0:
        return None
    needed = pairs_needed(
        (wins - losses) / pairs, discordance=(wins + losses) / pairs, alpha=alpha, power=power
    )
    return max(needed - pairs, n_min - pairs, 1)
