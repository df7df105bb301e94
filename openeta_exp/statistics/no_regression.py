"""What the rule "no episode got worse" does to candidates of known worth, exactly.

The rule has no controlled error rate: more episodes mean more chances of an innocent flip, so its
power falls to zero, and fewer let anything pass. These numbers are printed next to its verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

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
    pairs: int,
    *,
    rates: PairRates,
    reports: FailureReports | None = None,
    most_failures: int | None = None,
    humans_allowed: bool = True,
) -> float:
    """Probability that the rule promotes a candidate with these rates.

    Args:
        reports: Also require that the runtime's own counts do not get worse; None leaves the
            objective conditions only.
        most_failures: Failures that the candidate may have; None asks for one success.
        humans_allowed: Whether a failed episode of the candidate may have asked a human.
    """
    if reports is None:
        solved, failed = np.full((1, 1), rates.wins + rates.both), np.full((1, 1), rates.neither)
    else:
        solved = _solved_pair(rates, reports)
        failed = _failed_pair(rates, reports, humans_allowed=humans_allowed)
    # Without a regression the candidate fails exactly where the baseline fails too.
    if most_failures is None:
        anything, all_failed = np.ones((1, 1)), np.ones((1, 1))
        for _ in range(pairs):
            anything = _convolved(anything, solved + failed)
            all_failed = _convolved(all_failed, failed)
        return max(_counters_hold(anything) - _counters_hold(all_failed), 0.0)
    by_failures = [np.ones((1, 1))]
    for _ in range(pairs):
        one_more = [_convolved(mass, failed) for mass in by_failures]
        by_failures = [_convolved(mass, solved) for mass in by_failures]
        by_failures.append(np.zeros_like(by_failures[0]))
        for failures, mass in enumerate(one_more, start=1):
            by_failures[failures] = by_failures[failures] + mass
        del by_failures[min(most_failures, pairs - 1) + 1 :]
    return sum(_counters_hold(mass) for mass in by_failures)


def _convolved(mass: NDArray[np.float64], kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    rows, columns = mass.shape
    result = np.zeros((rows + kernel.shape[0] - 1, columns + kernel.shape[1] - 1))
    for (row, column), weight in np.ndenumerate(kernel):
        result[row : row + rows, column : column + columns] += weight * mass
    return result


def _solved_pair(rates: PairRates, reports: FailureReports) -> NDArray[np.float64]:
    """`[3, 3]` mass of (change in successes, change in failures) where the candidate succeeds."""
    mass = np.zeros((3, 3))
    mass[1, 1] = rates.both
    for (success, fail), share in _statuses(reports).items():
        mass[2 - success, 1 - fail] += rates.wins * share
    return mass


def _failed_pair(
    rates: PairRates, reports: FailureReports, *, humans_allowed: bool
) -> NDArray[np.float64]:
    """The same where both arms fail."""
    mass = np.zeros((3, 3))
    for (before, p_before), (after, p_after) in product(_statuses(reports).items(), repeat=2):
        if humans_allowed or after != (0, 0):
            change = (after[0] - before[0] + 1, after[1] - before[1] + 1)
            mass[change] += rates.neither * p_before * p_after
    return mass


def _statuses(reports: FailureReports) -> dict[tuple[int, int], float]:
    """(counts as success, counts as failure) to its share; neither is a request for a human."""
    return {(1, 0): reports.success, (0, 1): reports.fail, (0, 0): reports.need_human}


def _counters_hold(mass: NDArray[np.float64]) -> float:
    """Mass of what may not get worse: fewer successes, more failures, more requests."""
    centre = mass.shape[0] // 2
    successes, failures = (axis - centre for axis in np.indices(mass.shape))
    # Statuses add up, so a change in requests for a human is what the other two leave.
    held = (successes >= 0) & (failures <= 0) & (successes + failures >= 0)
    return float(mass[held].sum())
