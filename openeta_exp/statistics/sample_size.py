"""The textbook size of a paired comparison."""

from __future__ import annotations

import math

from openeta_exp.statistics.intervals import normal_quantile


def pairs_needed(
    effect: float, *, discordance: float, alpha: float = 0.05, power: float = 0.8, sides: int = 1
) -> int:
    """Pairs for a McNemar test to find `effect` (Connor 1987); both are rates.

    Raises:
        ValueError: If the effect is zero or larger than the discordance allows.
    """
    if not 0 < abs(effect) <= discordance <= 1:
        raise ValueError(f"an effect of {effect} cannot come from a discordance of {discordance}")
    z_alpha, z_power = normal_quantile(1 - alpha / sides), normal_quantile(power)
    root = z_alpha * math.sqrt(discordance) + z_power * math.sqrt(discordance - effect**2)
    return math.ceil((root / effect) ** 2)
