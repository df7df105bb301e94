"""How often an agent disagrees with itself, measured by comparing it with itself."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.statistics.intervals import Interval, clopper_pearson, require_counts
from openeta_exp.statistics.paired import Alternative, mcnemar_midp

ALARM_ALPHA = 0.05
"""Two-sided level at which two identical arms count as not exchangeable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flakiness:
    """What an A/A comparison says.

    Attributes:
        discordance: Share of pairs on which the two runs disagreed.
        interval: Of the discordance, 90 %, exact.
        icc: `1 - discordance / (2 p (1 - p))`; None if every episode ended alike.
        p_value: Two-sided, that the two arms are exchangeable.
        alarm: They are not: a cache, an order effect or a drift favours one of them.
    """

    pairs: int
    success_rate: float
    discordance: float
    interval: Interval
    icc: float | None
    p_value: float
    alarm: bool


def flakiness(wins: int, losses: int, *, both: int, neither: int) -> Flakiness:
    """Raises: ValueError: If there is no pair."""
    pairs = wins + losses + both + neither
    require_counts(wins, losses, pairs=pairs)
    if pairs == 0:
        raise ValueError("flakiness needs at least one pair")
    rate = (2 * both + wins + losses) / (2 * pairs)
    discordance = (wins + losses) / pairs
    variance = rate * (1 - rate)
    p_value = mcnemar_midp(wins, losses, alternative=Alternative.TWO_SIDED)
    return Flakiness(
        pairs=pairs,
        success_rate=rate,
        discordance=discordance,
        interval=clopper_pearson(wins + losses, pairs, level=0.90),
        icc=1 - discordance / (2 * variance) if variance > 0 else None,
        p_value=p_value,
        alarm=p_value <= ALARM_ALPHA,
    )
