"""Evidence that stays valid whenever one stops looking (e-values and what follows from them).

An e-value has expectation at most 1 under the hypothesis it speaks against; the chance that it
ever reaches `1 / alpha` is at most `alpha`. E-values of independent batches multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, betaln

from openeta_exp.statistics.intervals import Interval, require_counts
from openeta_exp.statistics.roots import falling_root

LARGEST = 1e300
"""Reported instead of a larger e-value, so that records stay finite."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# Legendre nodes live on (-1, 1); bets are a share of the largest bet that cannot go bankrupt.
# The weights add up to one, so the finite mixture is itself a valid e-value, whatever the
# quadrature error.
_SHARES = (_NODES + 1) / 2
_WEIGHTS = _WEIGHTS / 2


def discordant_e_value(
    wins: int, losses: int, *, a: float = 1.0, b: float = 1.0, one_sided: bool = True
) -> float:
    """Evidence against "a discordant pair is no more often a win than a loss".

    A Beta(a, b) mixture over the share of wins; one-sided truncates it to shares above one half.
    """
    require_counts(wins, losses, pairs=wins + losses)
    return bounded_exp(float(log_discordant_e_value(wins, losses, a=a, b=b, one_sided=one_sided)))


def log_discordant_e_value(
    wins: ArrayLike, losses: ArrayLike, *, a: float = 1.0, b: float = 1.0, one_sided: bool = True
) -> NDArray[np.float64]:
    """Natural logarithm of `discordant_e_value`, for arrays of counts."""
    won, lost = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    log_value = (won + lost) * math.log(2) + betaln(a + won, b + lost) - betaln(a, b)
    if one_sided:
        # The tail underflows only where the evidence is nil anyway.
        with np.errstate(divide="ignore"):
            log_value += np.log(betaincc(a + won, b + lost, 0.5)) - np.log(betaincc(a, b, 0.5))
    return np.asarray(log_value, dtype=np.float64)


def bounded_exp(log_value: float) -> float:
    """The exponential, no larger than `LARGEST`."""
    return math.exp(log_value) if log_value < math.log(LARGEST) else LARGEST


def gain_e_value(wins: int, losses: int, *, pairs: int, at_most: float = 0.0) -> float:
    """Evidence against "the effect is at most `at_most`", from the counts alone."""
    require_counts(wins, losses, pairs=pairs)
    return bounded_exp(float(log_gain_e_value(wins, losses, pairs=pairs, at_most=at_most)))


def shortfall_e_value(wins: int, losses: int, *, pairs: int, at_least: float) -> float:
    """Evidence against "the effect is at least `at_least`": the mirror image of a gain."""
    return gain_e_value(losses, wins, pairs=pairs, at_most=-at_least)


def log_gain_e_value(
    wins: ArrayLike, losses: ArrayLike, *, pairs: ArrayLike, at_most: float
) -> NDArray[np.float64]:
    """Natural logarithm of `gain_e_value`, for arrays of counts.

    Raises:
        ValueError: If `at_most` is not strictly between -1 and 1.
    """
    if not -1 < at_most < 1:
        raise ValueError(f"an effect of {at_most} cannot be tested: it must be inside (-1, 1)")
    won, lost = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    ties = np.asarray(pairs, dtype=np.float64) - won - lost
    bets = _SHARES / (1 + at_most)
    log_path = (
        np.multiply.outer(won, np.log1p(bets * (1 - at_most)))
        + np.multiply.outer(lost, np.log1p(-_SHARES))
        + np.multiply.outer(ties, np.log1p(-bets * at_most))
    )
    return _log_mixture(log_path)


def _log_mixture(log_path: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted mean over the bets in the last axis, in logarithms."""
    best = log_path.max(axis=-1, keepdims=True)
    mean = np.exp(log_path - best) @ _WEIGHTS
    return np.asarray(best[..., 0] + np.log(mean), dtype=np.float64)


def mean_gain_e_value(differences: Sequence[float], *, at_most: float = 0.0) -> float:
    """The same for differences in [-1, 1], such as means over repeats of one key."""
    if any(not -1 <= difference <= 1 for difference in differences):
        raise ValueError("paired differences lie in [-1, 1]")
    centred = np.asarray(differences, dtype=np.float64)[:, None] - at_most
    log_path = np.log1p(_SHARES / (1 + at_most) * centred).sum(axis=0)
    return bounded_exp(float(_log_mixture(log_path)))


def fixed_bet_e_value(differences: Sequence[float], *, bet: float, at_most: float = 0.0) -> float:
    """The same with one bet chosen beforehand instead of a mixture.

    Raises:
        ValueError: If the bet could go bankrupt.
    """
    if not 0 <= bet * (1 + at_most) <= 1:
        raise ValueError(f"a bet of {bet} can lose more than everything")
    return math.prod(1 + bet * (difference - at_most) for difference in differences)


def anytime_interval(wins: int, losses: int, *, pairs: int, level: float = 0.95) -> Interval:
    """Interval of the effect that holds at every stopping time at once. Wide for that reason."""
    require_counts(wins, losses, pairs=pairs)
    threshold = math.log(2 / (1 - level))
    return Interval(
        _anytime_low(wins, losses, pairs=pairs, threshold=threshold),
        -_anytime_low(losses, wins, pairs=pairs, threshold=threshold),
        level,
    )


def _anytime_low(wins: int, losses: int, *, pairs: int, threshold: float) -> float:
    def excess(effect: float) -> float:
        return float(log_gain_e_value(wins, losses, pairs=pairs, at_most=effect)) - threshold

    # Evidence for a gain over `effect` falls as `effect` grows.
    edge = 1 - 1e-9
    if excess(-edge) < 0:
        return -1.0
    return falling_root(excess, -edge, edge)
