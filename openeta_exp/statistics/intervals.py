"""Confidence intervals for one rate, for a paired difference and for a paired ratio.

Notation, here and in the rest of the package: of `pairs` valid pairs, `wins` were solved by the
candidate alone and `losses` by the baseline alone. The effect is `(wins - losses) / pairs`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from openeta_exp.domain.counting import counted
from openeta_exp.statistics.roots import falling_root


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval. `high` is infinite where nothing bounds a ratio from above.

    Attributes:
        level: Two-sided coverage; each end alone is a one-sided bound at `(1 + level) / 2`.
    """

    low: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def normal_quantile(probability: float) -> float:
    """Raises: statistics.StatisticsError: If the probability is not strictly between 0 and 1."""
    return NormalDist().inv_cdf(probability)


def require_counts(wins: int, losses: int, *, pairs: int) -> None:
    """Raises: ValueError: If the counts cannot come from one set of pairs."""
    if min(wins, losses) < 0 or wins + losses > pairs:
        raise ValueError(f"{wins} wins and {losses} losses do not fit in {counted(pairs, 'pair')}")


def wilson(successes: int, attempts: int, *, level: float = 0.95) -> Interval:
    """Score interval of one success rate; the whole unit interval without attempts."""
    require_counts(successes, 0, pairs=attempts)
    if attempts == 0:
        return Interval(0.0, 1.0, level)
    return score_interval(successes / attempts, attempts, level=level)


def score_interval(rate: float, attempts: float, *, level: float = 0.95) -> Interval:
    """Wilson's (1927), of a rate seen in so many independent attempts, whole or not."""
    z = normal_quantile((1 + level) / 2)
    shrink = 1 + z * z / attempts
    centre = (rate + z * z / (2 * attempts)) / shrink
    margin = z * math.sqrt(rate * (1 - rate) / attempts + z * z / (4 * attempts**2)) / shrink
    # At the extremes the formula is exact only up to rounding.
    low = 0.0 if rate == 0 else max(0.0, centre - margin)
    high = 1.0 if rate == 1 else min(1.0, centre + margin)
    return Interval(low, high, level)


def clopper_pearson(successes: int, attempts: int, *, level: float = 0.95) -> Interval:
    """Exact interval of one success rate: coverage is never below `level`."""
    require_counts(successes, 0, pairs=attempts)
    tail = (1 - level) / 2
    failures = attempts - successes
    # Here, because it takes a second to load that a command without it need not wait.
    from scipy.special import betaincinv

    low = float(betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return Interval(low, high, level)


def tango(wins: int, losses: int, *, pairs: int, level: float = 0.95) -> Interval:
    """Score interval of the paired difference (Tango 1998); well behaved without discordance.

    Swapping the arms negates and swaps the ends, exactly.
    """
    require_counts(wins, losses, pairs=pairs)
    if pairs == 0:
        return Interval(-1.0, 1.0, level)
    z = normal_quantile((1 + level) / 2)
    return Interval(
        -_tango_upper(losses, wins, pairs=pairs, z=z),
        _tango_upper(wins, losses, pairs=pairs, z=z),
        level,
    )


def _tango_upper(wins: int, losses: int, *, pairs: int, z: float) -> float:
    estimate = (wins - losses) / pairs
    if wins == pairs:
        return 1.0

    def excess(theta: float) -> float:
        return _tango_score(theta, wins, losses, pairs=pairs) + z

    # The score runs from 0 at the estimate to minus infinity at 1.
    return falling_root(excess, estimate, 1.0)


def _tango_score(theta: float, wins: int, losses: int, *, pairs: int) -> float:
    distance = wins - losses - pairs * theta
    a = 2.0 * pairs
    b = (2 * pairs - wins + losses) * theta - wins - losses
    c = -losses * theta * (1 - theta)
    # The probability that only the baseline solves a pair, fitted under the hypothesis theta.
    loss_rate = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = pairs * (2 * loss_rate + theta * (1 - theta))
    floor = 1e-12 * pairs
    return distance / math.sqrt(max(variance, floor)) if distance else 0.0


def newcombe(
    wins: float, losses: float, *, both: float, neither: float, level: float = 0.95
) -> Interval:
    """Hybrid score interval of the paired difference, with corrected correlation (method 10 of
    Newcombe 1998).

    Counts need not be whole; `clustered_intervals` says where they are not.
    """
    pairs = wins + losses + both + neither
    candidate_rate, baseline_rate = (both + wins) / pairs, (both + losses) / pairs
    candidate = score_interval(candidate_rate, pairs, level=level)
    baseline = score_interval(baseline_rate, pairs, level=level)
    effect = candidate_rate - baseline_rate
    correlation = _corrected_correlation(wins, losses, both=both, neither=neither)

    def margin(ours: float, theirs: float) -> float:
        squared = ours * ours - 2 * correlation * ours * theirs + theirs * theirs
        return math.sqrt(max(squared, 0.0))

    return Interval(
        effect - margin(candidate_rate - candidate.low, baseline.high - baseline_rate),
        effect + margin(candidate.high - candidate_rate, baseline_rate - baseline.low),
        level,
    )


def _corrected_correlation(wins: float, losses: float, *, both: float, neither: float) -> float:
    pairs = wins + losses + both + neither
    margins = (both + wins) * (losses + neither) * (both + losses) * (wins + neither)
    if margins == 0:
        return 0.0
    determinant = float(both * neither - wins * losses)
    if determinant > 0:
        determinant = max(determinant - pairs / 2, 0.0)
    return determinant / math.sqrt(margins)


def wald(wins: int, losses: int, *, pairs: int, level: float = 0.95) -> Interval:
    """Textbook interval of the paired difference. For comparison with other reports only.

    It collapses to a point without discordance, so nothing here decides by it.
    """
    require_counts(wins, losses, pairs=pairs)
    effect = (wins - losses) / pairs
    spread = math.sqrt(max(wins + losses - (wins - losses) ** 2 / pairs, 0.0)) / pairs
    margin = normal_quantile((1 + level) / 2) * spread
    return Interval(effect - margin, effect + margin, level)


def liddell(wins: int, losses: int, *, level: float = 0.95) -> Interval:
    """Exact interval of the ratio `wins / losses`; (0, inf) without discordance."""
    share = clopper_pearson(wins, wins + losses, level=level)

    def odds(probability: float) -> float:
        return probability / (1 - probability) if probability < 1 else math.inf

    return Interval(odds(share.low), odds(share.high), level)
