"""Intervals of rates and differences over scenarios that were run more than once.

Runs of one scenario are alike, at the worst the same: a policy that always answers alike, in a
simulator that always answers alike, shows nothing new after the first. So the scenario is the
unit. A rate over clusters of `m_1, m_2, ...` runs has, whatever the correlation within them, at
most the variance of a rate over

    n = (m_1 + m_2 + ...)^2 / (m_1^2 + m_2^2 + ...)

independent runs: the effective sample size of Kish (Survey Sampling, 1965) with the intracluster
correlation at its largest, 1. That is the number of scenarios where all have equally many runs,
and the number of runs where all have one. Wilson's and Newcombe's formulas are then used with n
for the sample size, as is usual for clustered samples (Dean and Pagano, Journal of Survey
Statistics and Methodology 3, 2015).

The correlation is not estimated: a few repeats say little about it, and nothing where all runs
succeed. So repeats narrow no interval here; they only make the estimate in its middle better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from openeta_exp.domain.counting import counted
from openeta_exp.statistics.intervals import Interval, newcombe, score_interval


def effective_size(clusters: Iterable[Hashable]) -> float:
    """Independent runs that say at least as much as these, given the cluster of each; 0 of none.

    Never more than the clusters there are.
    """
    sizes = Counter(clusters).values()
    return sum(sizes) ** 2 / sum(size**2 for size in sizes) if sizes else 0.0


def clustered_wilson(
    successes: int, clusters: Iterable[Hashable], *, level: float = 0.95
) -> Interval:
    """Interval of one success rate; the whole unit interval without runs.

    Args:
        clusters: The scenario of every run.

    Raises:
        ValueError: If more runs succeeded than there are.
    """
    runs = list(clusters)
    if not 0 <= successes <= len(runs):
        raise ValueError(f"{successes} successes do not fit in {len(runs)} runs")
    if not runs:
        return Interval(0.0, 1.0, level)
    return score_interval(successes / len(runs), effective_size(runs), level=level)


def clustered_newcombe(
    wins: int, losses: int, *, both: int, neither: int, size: float, level: float = 0.95
) -> Interval:
    """Interval of the paired difference.

    Args:
        size: The `effective_size` of the pairs.

    Raises:
        ValueError: If there is no pair, or the size is not between 0 and the pairs.
    """
    pairs = wins + losses + both + neither
    if not 0 < size <= pairs:
        raise ValueError(
            f"{counted(pairs, 'pair')} cannot say as much as {size:g} independent ones"
        )
    if size == pairs:
        return newcombe(wins, losses, both=both, neither=neither, level=level)
    return newcombe(
        wins * size / pairs,
        losses * size / pairs,
        both=both * size / pairs,
        neither=neither * size / pairs,
        level=level,
    )
