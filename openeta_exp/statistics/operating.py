"""How often each gate promotes, and after how many pairs, for arms of known worth.

The fixed, anytime and no-regression rules are enumerated exactly. The sequential test depends on
the whole history of discordance, so it is simulated, many streams at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, gammaln

from openeta_exp.statistics.agent_model import PairRates
from openeta_exp.statistics.no_regression import FailureReports, pass_probability
from openeta_exp.statistics.sequential_design import Reestimation, SequentialDesign
from openeta_exp.statistics.sequential_streams import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """What a gate does to candidates of one worth.

    Attributes:
        promote: Probability of promotion.
        reject: Probability of giving up before the budget ends.
        mean_pairs: Pairs used on average.
        standard_error: Of `promote`, from simulation; 0 where it was enumerated.
    """

    promote: float
    reject: float
    mean_pairs: float
    standard_error: float = 0.0


def fixed_operating_point(
    rates: PairRates, *, pairs: int, alpha: float, midp: bool = False
) -> OperatingPoint:
    """Exact one-sided McNemar test at a fixed size, enumerated."""
    flips = np.arange(pairs + 1)
    chance_flips = _binomial(pairs, flips, rates.discordance)
    share = rates.wins / rates.discordance if rates.discordance else 0.5
    # Sizes that are tried one after the other share a table.
    critical = _critical_wins(1 << pairs.bit_length(), alpha=alpha, midp=midp)[: pairs + 1]
    promote = float(chance_flips @ bdtrc(critical - 1.0, flips, share))
    return OperatingPoint(promote=min(promote, 1.0), reject=0.0, mean_pairs=float(pairs))


@lru_cache(maxsize=32)
def _critical_wins(most_flips: int, *, alpha: float, midp: bool) -> NDArray[np.int64]:
    """`[flips]` fewest wins among so many flips that reject; `flips + 1` if none does."""
    flips = np.arange(most_flips + 1)
    too_few, enough = np.full_like(flips, -1), flips + 1
    # The p-value falls with the wins, so bisection finds where it suffices.
    while np.any(enough - too_few > 1):
        wins = (too_few + enough) // 2
        p_values = np.where(wins > 0, bdtrc(wins - 1.0, flips, 0.5), 1.0)
        if midp:
            p_values -= 0.5 * _binomial(flips, wins, 0.5)
        # One part in 1e12 keeps dyadic p-values that equal alpha on the exact side.
        rejects = p_values <= alpha * (1 + 1e-12)
        enough, too_few = np.where(rejects, wins, enough), np.where(rejects, too_few, wins)
    return enough


def _binomial(
    trials: int | NDArray[np.int64], successes: NDArray[np.int64], chance: float
) -> NDArray[np.float64]:
    if chance in (0.0, 1.0):
        return np.asarray(successes == trials * chance, dtype=np.float64)
    log_ways = gammaln(trials + 1) - gammaln(successes + 1) - gammaln(trials - successes + 1)
    log_mass = successes * math.log(chance) + (trials - successes) * math.log1p(-chance)
    return np.asarray(np.exp(log_ways + log_mass), dtype=np.float64)


def no_regression_operating_point(
    rates: PairRates, *, pairs: int, reports: FailureReports | None = None
) -> OperatingPoint:
    """The rule that no episode may get worse, enumerated."""
    promote = pass_probability(pairs, rates=rates, reports=reports)
    return OperatingPoint(promote=promote, reject=1 - promote, mean_pairs=float(pairs))


def sequential_operating_point(
    rates: PairRates,
    design: SequentialDesign,
    *,
    runs: int,
    seed: int,
    rule: Reestimation | None = None,
    available: int | None = None,
) -> OperatingPoint:
    """The default gate, simulated on `runs` streams of pairs, cut off after those available."""
    generator = np.random.default_rng(seed)
    longest = design.n_max if rule is None else max(rule.largest, design.n_max)
    longest = longest if available is None else min(longest, available)
    draws = generator.random((runs, longest), dtype=np.float32)
    differences = (draws < rates.wins).astype(np.int8)
    differences -= (draws >= 1 - rates.losses).astype(np.int8)
    ends = simulate(design, differences, rule=rule)
    promote = float(ends.promoted.mean())
    return OperatingPoint(
        promote=promote,
        reject=float(ends.rejected.mean()),
        mean_pairs=float(ends.pairs.mean()),
        standard_error=math.sqrt(promote * (1 - promote) / runs),
    )
