"""How frames are drawn; apart from the renderer, because the server names it without MuJoCo."""

from __future__ import annotations

from enum import StrEnum


class Quality(StrEnum):
    """Part of every observation."""

    BENCHMARK = "benchmark"
    """As the scene's authors ship it: multisampling, shadows, reflections."""
    FAST = "fast"
    """None of them; on software GL about half the time."""
