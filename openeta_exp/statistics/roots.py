"""Where a falling function crosses zero."""

from __future__ import annotations

from collections.abc import Callable

HALVINGS = 60
"""Enough to exhaust the precision of a number between -1 and 1."""


def falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The crossing of a non-increasing function that is not negative at `low`.

    Bisection, so infinite values are welcome. (`scipy.optimize` would add a second to the start of
    every command.)
    """
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if function(middle) >= 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
