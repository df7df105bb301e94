"""Tests of one paired comparison whose size was fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

import numpy as np

from openeta_exp.statistics.intervals import Interval, require_counts, tango


class Alternative(StrEnum):
    """Which departure from "both arms are equally good" counts as evidence."""

    GREATER = "greater"
    LESS = "less"
    TWO_SIDED = "two-sided"


def sign_tail(successes: int, flips: int) -> float:
    """`P(Binomial(flips, 1/2) >= successes)`, correctly rounded: the sum runs over integers."""
    return float(_sign_tail(successes, flips))


def _sign_tail(successes: int, flips: int) -> Fraction:
    if successes <= 0:
        return Fraction(1)
    ways, term = 0, 1
    for failures in range(flips - successes + 1):
        ways += term
        term = term * (flips - failures) // (failures + 1)
    return Fraction(ways, 2**flips)


def mcnemar_exact(
    wins: int, losses: int, *, alternative: Alternative = Alternative.GREATER
) -> float:
    """Exact conditional p-value of a paired comparison: a fair coin per discordant pair."""
    require_counts(wins, losses, pairs=wins + losses)
    flips = wins + losses
    match alternative:
        case Alternative.GREATER:
            return sign_tail(wins, flips)
        case Alternative.LESS:
            return sign_tail(losses, flips)
        case Alternative.TWO_SIDED:
            return float(min(Fraction(1), 2 * _sign_tail(max(wins, losses), flips)))


def mcnemar_midp(
    wins: int, losses: int, *, alternative: Alternative = Alternative.GREATER
) -> float:
    """The same with half the weight on the observed split.

    Less conservative, and not exact: its one-sided size reaches 0.058 at a nominal 0.05.
    """
    require_counts(wins, losses, pairs=wins + losses)
    flips = wins + losses

    def tail(successes: int) -> Fraction:
        observed = Fraction(math.comb(flips, successes), 2**flips)
        return _sign_tail(successes, flips) - observed / 2

    match alternative:
        case Alternative.GREATER:
            return float(tail(wins))
        case Alternative.LESS:
            return float(tail(losses))
        case Alternative.TWO_SIDED:
            return float(min(Fraction(1), 2 * tail(max(wins, losses))))


def mcnemar_z_squared(wins: int, losses: int) -> float:
    """The large-sample statistic, chi-squared with one degree of freedom; 0 without discordance."""
    return (wins - losses) ** 2 / (wins + losses) if wins + losses else 0.0


def sign_flip(means: Sequence[float]) -> float:
    """Exact one-sided p-value that task means are symmetric about zero, against a gain.

    Every one of the `2 ** len(means)` sign patterns is visited.

    Raises:
        ValueError: If there are more than 20 means, or none.
    """
    if not 1 <= len(means) <= 20:
        raise ValueError(f"sign flips enumerate 1 to 20 means, not {len(means)}")
    flips = np.arange(2 ** len(means))[:, None] >> np.arange(len(means)) & 1
    sums = (1 - 2 * flips) @ np.asarray(means, dtype=np.float64)
    # Patterns that tie with the observed sum must not be lost to rounding.
    return float(np.mean(sums >= math.fsum(means) - 1e-12))


def equivalent(wins: int, losses: int, *, pairs: int, margin: float, alpha: float = 0.05) -> bool:
    """Whether two one-sided Tango tests at `alpha` both place the effect inside the margin.

    Args:
        margin: Largest effect that would not matter, as a rate, e.g. 0.05 for five points.
    """
    interval = equivalence_interval(wins, losses, pairs=pairs, alpha=alpha)
    return -margin < interval.low and interval.high < margin


def equivalence_interval(wins: int, losses: int, *, pairs: int, alpha: float = 0.05) -> Interval:
    """The interval that two one-sided tests at `alpha` look at: Tango at level `1 - 2 alpha`."""
    return tango(wins, losses, pairs=pairs, level=1 - 2 * alpha)
