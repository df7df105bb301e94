"""What a sequential comparison fixes beforehand, and when it is worth going on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from openeta_exp.statistics.intervals import normal_quantile
from openeta_exp.statistics.sample_size import pairs_needed

PRIOR_PAIRS = 10
"""How many imagined pairs the planned discordance counts for before observations dominate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialDesign:
    """Everything that must be fixed before the first pair is run.

    Attributes:
        alpha: One-sided type I error, spent over the looks.
        n_max: Pairs at which the test ends undecided.
        n_min: Pairs before the first look; nothing is spent earlier.
        rho: Spending exponent: `alpha * (pairs / n_max) ** rho` may be spent by then.
        batch: Pairs between looks.
        delta_min: Smallest gain worth a promotion, as a rate. Used for giving up only.
        gamma: Give up when the chance of still succeeding at `delta_min` is below; 0 never does.
        planned_discordance: Expected share of discordant pairs, for giving up only.
    """

    alpha: float = 0.05
    n_max: int = 60
    n_min: int = 20
    rho: float = 1.0
    batch: int = 4
    delta_min: float = 0.15
    gamma: float = 0.2
    planned_discordance: float = 0.3

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 1 and 0 < self.delta_min < 1 and 0 <= self.gamma < 1):
            raise ValueError("alpha, delta_min and gamma are probabilities")
        if not (0 < self.planned_discordance <= 1 and self.rho > 0):
            raise ValueError("planned_discordance and rho must be positive")
        if not (self.n_max >= 1 and 0 <= self.n_min <= self.n_max and self.batch >= 1):
            raise ValueError("need 0 <= n_min <= n_max and a batch of at least one pair")

    def looks_after(self, pairs: int) -> bool:
        """Whether the schedule of looks has one after so many pairs."""
        return pairs >= max(self.n_min, 1) and (pairs % self.batch == 0 or pairs == self.n_max)


def conditional_power(
    design: SequentialDesign, *, pairs: int, wins: ArrayLike, losses: ArrayLike
) -> NDArray[np.float64]:
    """Chance of success by `n_max` if the true gain is `delta_min` (normal approximation).

    It only decides when to give up, which can never raise the type I error.

    Raises:
        ValueError: If no pair is left.
    """
    won, lost = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    outlook = _outlook(design, pairs=pairs, discordant=won + lost)
    return np.asarray(ndtr((won - lost - outlook.shortfall) / outlook.spread), dtype=np.float64)


def futility_lead(design: SequentialDesign, *, pairs: int, discordant: int) -> float | None:
    """The lead `wins - losses` below which a look gives up; None where no look can."""
    if design.gamma == 0 or pairs >= design.n_max:
        return None
    outlook = _outlook(design, pairs=pairs, discordant=discordant)
    return float(outlook.shortfall + normal_quantile(design.gamma) * outlook.spread)


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What is left to run, in units of the lead.

    Attributes:
        shortfall: Lead needed now for an even chance of success.
        spread: Standard deviation of what the remaining pairs add.
    """

    shortfall: NDArray[np.float64]
    spread: NDArray[np.float64]


def _outlook(design: SequentialDesign, *, pairs: int, discordant: ArrayLike) -> _Outlook:
    remaining = design.n_max - pairs
    if remaining <= 0:
        raise ValueError(f"no pair is left after {pairs} of {design.n_max}")
    discordance = _discordance(design, pairs=pairs, discordant=discordant)
    needed = normal_quantile(1 - design.alpha) * np.sqrt(design.n_max * discordance)
    return _Outlook(
        shortfall=needed - remaining * design.delta_min,
        spread=np.sqrt(remaining * (discordance - design.delta_min**2)),
    )


def _discordance(
    design: SequentialDesign, *, pairs: int, discordant: ArrayLike
) -> NDArray[np.float64]:
    """Smoothed share of discordant pairs, kept above what an effect of `delta_min` implies."""
    imagined = PRIOR_PAIRS * design.planned_discordance
    smoothed = (np.asarray(discordant, dtype=np.float64) + imagined) / (pairs + PRIOR_PAIRS)
    return np.asarray(np.maximum(smoothed, design.delta_min * (1 + 1e-9)), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reestimation:
    """How the size may be chosen anew, once, at the first look and before anything is spent.

    Only the count of discordant pairs is used. Their signs are independent of their number if no
    arm is better, so the type I error stays exact.

    Attributes:
        smallest, largest: Bounds of the new `n_max`.
        power: Wanted probability of promoting a gain of `delta_min`.
    """

    smallest: int = 40
    largest: int = 150
    power: float = 0.8


def reestimated(
    design: SequentialDesign, *, pairs: int, discordant: int, rule: Reestimation
) -> SequentialDesign:
    """The design with `n_max` fitted to the discordance seen so far."""
    discordance = float(_discordance(design, pairs=pairs, discordant=discordant))
    needed = pairs_needed(
        design.delta_min, discordance=discordance, alpha=design.alpha, power=rule.power
    )
    return replace(design, n_max=max(min(needed, rule.largest), rule.smallest, design.n_min, pairs))
