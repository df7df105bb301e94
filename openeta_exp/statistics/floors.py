"""Absolute success rates that a candidate must reach, whatever the baseline does."""

from __future__ import annotations

from enum import StrEnum

from openeta_exp.statistics.intervals import clopper_pearson


class FloorRule(StrEnum):
    """What must reach the floor.

    POINT compares the observed rate, which certifies little: 19 of 20 is compatible with a true
    rate of 0.784. LOWER_BOUND compares the exact one-sided 95 % bound.
    """

    POINT = "point"
    LOWER_BOUND = "lower_bound"


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
