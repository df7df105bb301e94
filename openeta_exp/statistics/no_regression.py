"""What the rule "no episode got worse" does to candidates of known worth, exactly.

The rule has no controlled error rate: more episodes mean more chances of an innocent flip, so its
power falls to zero, and fewer let anything pass. These numbers are printed next to its verdicts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from openeta_exp.statistics.agent_model import PairRates

_STEPS = np.array([-1, 0, 1])
"""By how much one pair may change a counter."""
_DECADES = 20 * math.log(10)
"""Changes less likely than the exponential of minus this are left out."""


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
        solved, failed = _unreported(rates.wins + rates.both), _unreported(rates.neither)
    else:
        solved = _solved_pair(rates, reports)
        failed = _failed_pair(rates, reports, humans_allowed=humans_allowed)
    # Without a regression the candidate fails exactly where the baseline fails too.
    if most_failures is None or most_failures >= pairs:
        anything = _held(pairs, solved + failed, failed, most_failures=0)
        return max(anything - _held(pairs, failed, failed, most_failures=0), 0.0)
    return max(_held(pairs, solved, failed, most_failures=most_failures), 0.0)


def _held(
    pairs: int,
    solved: NDArray[np.float64],
    failed: NDArray[np.float64],
    *,
    most_failures: int,
) -> float:
    """Mass of changes at which the counters hold, after pairs of which so many may be failed.

    That is the sum of `C(pairs, f) solved^(pairs - f) failed^f`, where powers are convolutions.
    A convolution is a product of Fourier transforms: their powers cost the same for any number of
    pairs, and the transform needs no more room than the counters can plausibly change.
    """
    kernels = (_normalised(solved), _normalised(failed))
    successes, failures = (
        _plausible_changes(pairs, kernels, most_failures=most_failures, axis=axis)
        for axis in (0, 1)
    )
    first, second = (
        _waves(len(successes), len(successes))
        @ kernel
        @ _waves(len(failures), len(failures) // 2 + 1).T
        for kernel in kernels
    )
    weights = _weights(pairs, solved.sum(), failed.sum(), most_failures=most_failures)
    mixture, power = np.full_like(first, weights[0]), np.ones_like(second)
    for weight in weights[1:]:
        power *= second
        mixture = mixture * first + weight * power
    mixture *= first ** (pairs - most_failures)
    mass = np.fft.irfft2(mixture, s=(len(successes), len(failures)))
    gained, lost = successes[:, None], failures[None, :]
    # Statuses add up, so a change in requests for a human is what the other two leave.
    held = (gained >= 0) & (lost <= 0) & (gained + lost >= 0)
    return float(mass[held].sum())


def _normalised(mass: NDArray[np.float64]) -> NDArray[np.float64]:
    total = mass.sum()
    return mass / total if total > 0 else mass


def _weights(pairs: int, solved: float, failed: float, *, most_failures: int) -> list[float]:
    """`C(pairs, f) solved^(pairs - f) failed^f` for `f` from 0 to `most_failures`."""
    return [
        float(
            np.exp(
                gammaln(pairs + 1)
                - gammaln(failures + 1)
                - gammaln(pairs - failures + 1)
                + xlogy(pairs - failures, solved)
                + xlogy(failures, failed)
            )
        )
        for failures in range(most_failures + 1)
    ]


def _plausible_changes(
    pairs: int,
    kernels: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    most_failures: int,
    axis: int,
) -> NDArray[np.int64]:
    """Changes of one counter, by their index in the transform; what is left out is negligible."""
    means, variances = [], []
    for kernel in kernels:
        shares = kernel.sum(axis=1 - axis)
        means.append(float(shares @ _STEPS))
        variances.append(float(shares @ _STEPS**2))
    ends = (pairs * means[0], (pairs - most_failures) * means[0] + most_failures * means[1])
    # Bernstein's inequality for steps of at most two from the mean.
    room = _DECADES * 2 / 3 + math.sqrt(
        (_DECADES * 2 / 3) ** 2 + 2 * _DECADES * pairs * max(variances)
    )
    low = max(-pairs, math.floor(min(ends) - room))
    high = min(pairs, math.ceil(max(ends) + room))
    changes = np.arange(low, high + 1)
    return np.asarray(changes[np.argsort(changes % len(changes))], dtype=np.int64)


def _waves(size: int, frequencies: int) -> NDArray[np.complex128]:
    """`[frequencies, 3]` of the Fourier transform, for each of the steps."""
    return np.exp(-2j * np.pi / size * np.outer(np.arange(frequencies), _STEPS))


def _unreported(chance: float) -> NDArray[np.float64]:
    """Of a pair that changes no counter."""
    mass = np.zeros((3, 3))
    mass[1, 1] = chance
    return mass


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
