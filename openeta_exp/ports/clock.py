"""Time, passed in so that nothing in the engine reads it by itself."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for durations, one for dates."""

    def monotonic_s(self) -> float:
        """Seconds that never run backwards, for budgets and durations."""
        ...

    def unix_s(self) -> float:
        """Seconds since 1970, for records."""
        ...

    async def sleep(self, seconds: float) -> None: ...
