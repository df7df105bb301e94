"""How often an agent disagrees with itself, measured by comparing it with itself."""

from __future__ import annotations

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.gate import Flakiness
from openeta_exp.statistics.intervals import clopper_pearson, require_counts
from openeta_exp.statistics.paired import Alternative, mcnemar_midp

ALARM_ALPHA = 0.05
"""Two-sided level at which two identical arms count as not exchangeable."""


def measure_flakiness(comparison: PairedComparison) -> Flakiness:
    """Read a comparison of the baseline with itself, on keys the author may see.

    Raises:
        ValueError: If no pair is valid.
    """
    measured = flakiness(
        len(comparison.improved),
        len(comparison.regressed),
        both=len(comparison.tied_success),
        neither=len(comparison.tied_failure),
    )
    flaky = tuple(pair.key for pair in comparison.pairs if pair.difference)
    return measured.model_copy(update={"flaky_keys": flaky})


def flakiness(wins: int, losses: int, *, both: int, neither: int) -> Flakiness:
    """The same from counts. Raises: ValueError: If there is no pair."""
    pairs = wins + losses + both + neither
    require_counts(wins, losses, pairs=pairs)
    if pairs == 0:
        raise ValueError("flakiness needs at least one pair")
    rate = (2 * both + wins + losses) / (2 * pairs)
    discordance = (wins + losses) / pairs
    variance = rate * (1 - rate)
    p_value = mcnemar_midp(wins, losses, alternative=Alternative.TWO_SIDED)
    interval = clopper_pearson(wins + losses, pairs, level=0.90)
    return Flakiness(
        pairs=pairs,
        success_rate=rate,
        discordance=discordance,
        discordance_low=interval.low,
        discordance_high=interval.high,
        icc=1 - discordance / (2 * variance) if variance > 0 else None,
        p_value=p_value,
        alarm=p_value <= ALARM_ALPHA,
    )
