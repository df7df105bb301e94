"""Inference when tasks, not episodes, are the sample: will the gain carry over to new tasks?"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from openeta_exp.statistics.intervals import Interval

SMALLEST_TASKS = 5
"""With fewer tasks no test of new tasks can reach a one-sided 0.05."""


def cluster_means(
    differences: Sequence[float], clusters: Sequence[Hashable]
) -> dict[Hashable, float]:
    """Mean difference of each cluster, in order of first appearance.

    Raises:
        ValueError: If the two sequences differ in length.
    """
    members: dict[Hashable, list[float]] = {}
    for difference, cluster in zip(differences, clusters, strict=True):
        members.setdefault(cluster, []).append(difference)
    return {cluster: math.fsum(values) / len(values) for cluster, values in members.items()}


def clustered_standard_error(
    differences: Sequence[float], clusters: Sequence[Hashable], *, corrected: bool = True
) -> float:
    """Standard error of the mean difference when pairs of one cluster move together.

    Args:
        corrected: Multiply the variance by `C / (C - 1)` for C clusters.

    Raises:
        ValueError: If the correction is asked of fewer than two clusters.
    """
    mean = math.fsum(differences) / len(differences)
    sums: dict[Hashable, float] = {}
    for difference, cluster in zip(differences, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + difference - mean
    if corrected and len(sums) < 2:
        raise ValueError("one cluster says nothing about how clusters vary")
    factor = len(sums) / (len(sums) - 1) if corrected else 1.0
    return math.sqrt(factor * math.fsum(total**2 for total in sums.values())) / len(differences)


@dataclass(frozen=True, slots=True)
class TaskMeanTest:
    """A t-test on task means.

    Attributes:
        p_value: One-sided, for a gain.
        interval: Two-sided, of the mean over tasks.
    """

    tasks: int
    mean: float
    p_value: float
    interval: Interval

    @property
    def p_two_sided(self) -> float:
        return min(1.0, 2 * min(self.p_value, 1 - self.p_value))


def task_mean_test(
    differences: Sequence[float], tasks: Sequence[Hashable], *, level: float = 0.95
) -> TaskMeanTest:
    """Is the mean gain over tasks positive? Degrees of freedom: tasks minus one.

    Raises:
        ValueError: If there are fewer than two tasks.
    """
    means: NDArray[np.float64] = np.array(list(cluster_means(differences, tasks).values()))
    if len(means) < 2:
        raise ValueError("one task says nothing about how tasks vary")
    mean, spread = float(means.mean()), float(means.std(ddof=1) / math.sqrt(len(means)))
    margin = float(stdtrit(len(means) - 1, (1 + level) / 2)) * spread
    if spread > 0:
        p_value = float(stdtr(len(means) - 1, -mean / spread))
    else:
        p_value = 0.0 if mean > 0 else 1.0
    return TaskMeanTest(len(means), mean, p_value, Interval(mean - margin, mean + margin, level))
