"""Absolute success rates that a candidate must reach, whatever the baseline does."""

from __future__ import annotations

from openeta_exp.domain.gate import FloorRule
from openeta_exp.statistics.intervals import clopper_pearson


def certified_rate(successes: int, attempts: int, *, rule: FloorRule) -> float:
    """The rate that is compared with the floor; 0 without attempts."""
    if attempts == 0:
        return 0.0
    match rule:
        case FloorRule.POINT:
            return successes / attempts
        case FloorRule.LOWER_BOUND:
            return clopper_pearson(successes, attempts, level=0.90).low


def successes_needed(attempts: int, *, rate: float, rule: FloorRule) -> int | None:
    """Fewest successes that reach the floor; None if even all of them do not."""
    for successes in range(attempts + 1):
        if certified_rate(successes, attempts, rule=rule) >= rate:
            return successes
    return None
