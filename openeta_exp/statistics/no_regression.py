"""What the rule "no episode got worse" does to candidates of known worth, exactly.

The rule has no controlled error rate: more episodes mean more chances of an innocent flip, so its
power falls to zero, and fewer let anything pass. These numbers are printed next to its verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from openeta_exp.statistics.agent_model import PairRates


def identical_pass_probability(pairs: int, *, loss_rate: float, neither_rate: float) -> float:
    """Probability that the rule's success conditions promote an identical agent.

    Args:
        loss_rate: Probability that only the baseline run succeeds: half the A/A discordance.
        neither_rate: Probability that both runs fail.
    """
    return float((1 - loss_rate) ** pairs - neither_rate**pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReports:
    """What the runtime says about an episode whose checker did not confirm success.

    Attributes:
        success, fail, need_human: Shares of the three statuses.
    """

    success: float = 0.20
    fail: float = 0.65
    need_human: float = 0.15


def pass_probability(
    pairs: int, *, rates: PairRates, reports: FailureReports | None = None
) -> float:
    """Probability that the rule promotes a candidate with these rates.

    Args:
        reports: Also require that the runtime's own counts do not get worse; None leaves the
            objective conditions only.
    """
    if reports is None:
        return identical_pass_probability(pairs, loss_rate=rates.losses, neither_rate=rates.neither)
    any_outcome = _counters_hold(_one_pair(rates, reports, succeeded=True), pairs)
    nobody_succeeded = _counters_hold(_one_pair(rates, reports, succeeded=False), pairs)
    return any_outcome - nobody_succeeded


def _one_pair(rates: PairRates, reports: FailureReports, *, succeeded: bool) -> NDArray[np.float64]:
    """`[3, 3]` mass of (change in successes, change in failures) of one unregressed pair."""
    mass = np.zeros((3, 3))
    statuses = {(1, 0): reports.success, (0, 1): reports.fail, (0, 0): reports.need_human}
    for (before, p_before), (after, p_after) in product(statuses.items(), repeat=2):
        change = (after[0] - before[0] + 1, after[1] - before[1] + 1)
        mass[change] += rates.neither * p_before * p_after
    if succeeded:
        mass[1, 1] += rates.both
        for before, p_before in statuses.items():
            mass[2 - before[0], 1 - before[1]] += rates.wins * p_before
    return mass


def _counters_hold(one_pair: NDArray[np.float64], pairs: int) -> float:
    total = np.ones((1, 1))
    for _ in range(pairs):
        total = fftconvolve(total, one_pair)
    successes, failures = (axis - pairs for axis in np.indices(total.shape))
    # Statuses add up, so a change in requests for a human is what the other two leave.
    held = (successes >= 0) & (failures <= 0) & (successes + failures >= 0)
    return float(total[held].sum())
