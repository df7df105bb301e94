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
succeed. So repeats narrow no interval here; they only make the estimate in its middle better. The
exception is `clustered_difference`, which decides and not only describes: it goes by how much
scenarios are seen to differ, as far as they can show it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from openeta_exp.domain.counting import counted
from openeta_exp.statistics.intervals import Interval, newcombe, normal_quantile, score_interval


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


def clustered_difference(
    differences: Sequence[int], clusters: Sequence[Hashable], *, level: float = 0.95
) -> Interval:
    """Interval of the mean paired difference over new scenarios, from runs of those there are.

    The usual t-interval over scenarios knows only the kinds of scenarios that turned up: one
    discordant run among ties would leave it next to no width, though a kind that is always lost
    may well be missing among so few. So each share, of runs that the candidate alone and of those
    that the baseline alone solved, gets bounds that allow for kinds not seen (`_reach`), and both
    are put together by MOVER with the negative correlation that scenarios show (Zou and
    Donner, Statistics in Medicine 27, 2008; of paired differences: Tang, Ling, Ling and Tian,
    Statistics in Medicine 29, 2010). The interval spans these bounds and the t-interval. Repeats
    narrow it where scenarios are alike and runs are not, and hardly where a scenario always ends
    the same.

    Exchanging the arms negates and swaps the ends. One scenario says nothing of the others.

    Args:
        differences: +1, 0 or -1 of every pair.
        clusters: The scenario of every pair.

    Raises:
        ValueError: If there is no pair, or the two sequences differ in length.
    """
    if not differences:
        raise ValueError("without a pair there is no difference")
    # Here, because it takes a second to load that a command without it need not wait.
    from scipy.special import stdtrit

    from openeta_exp.statistics.clusters import clustered_standard_error

    scenarios = len(set(clusters))
    if scenarios == 1:
        return Interval(-1.0, 1.0, level)
    t = float(stdtrit(scenarios - 1, (1 + level) / 2))
    unseen = normal_quantile((1 + level) / 2) ** 2 / effective_size(clusters)

    def spread(values: Sequence[int]) -> float:
        return t * clustered_standard_error(values, clusters)

    won, lost = ([int(each == sign) for each in differences] for sign in (1, -1))
    win_rate, loss_rate = (math.fsum(each) / len(each) for each in (won, lost))
    by_wins, by_losses, by_both = spread(won), spread(lost), spread(differences)
    # Where every run is a win, or every one a loss, what is not the one must be the other.
    correlation = -1.0 if 1 in (win_rate, loss_rate) else 0.0
    if by_wins and by_losses:
        together = by_wins**2 + by_losses**2 - by_both**2
        # That wins and losses turn up together says nothing of the kinds that did not.
        correlation = max(-1.0, min(0.0, together / (2 * by_wins * by_losses)))

    def margin(wins_room: float, losses_room: float) -> float:
        ours = _reach(wins_room, by_wins, unseen=unseen)
        theirs = _reach(losses_room, by_losses, unseen=unseen)
        squared = ours * ours - 2 * correlation * ours * theirs + theirs * theirs
        return max(math.sqrt(max(squared, 0.0)), by_both)

    effect = win_rate - loss_rate
    low = effect - margin(win_rate, 1 - loss_rate)
    high = effect + margin(1 - win_rate, loss_rate)
    return Interval(max(low, -1.0), min(high, 1.0), level)


def _reach(room: float, spread: float, *, unseen: float) -> float:
    """How far a mean share may be from the one seen, towards the end of its range.

    Wilson's argument for shares that may be anything from 0 to 1: if a part `q` of all scenarios
    are of a kind that did not turn up, at the end of the range, then the mean is `q * room` away,
    and so many standard errors as the quantile says if

        (q * room)^2 = (1 - q) * spread^2 + q * (1 - q) * unseen * room^2.

    Of scenarios that always end the same it is Wilson's interval, but for the t-quantile in place
    of the normal one.

    Args:
        room: From the share seen to the end of its range.
        spread: Standard error of the share times the quantile.
        unseen: Squared normal quantile over the number of scenarios.
    """
    if room <= 0:
        return 0.0
    error, limit = (spread / room) ** 2, 1 + unseen
    half = (unseen - error) / 2
    return room * (half + math.sqrt(half * half + error * limit)) / limit
