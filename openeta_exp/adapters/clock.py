"""The machine's own clocks."""

from __future__ import annotations

import time

import anyio


class SystemClock:
    """Real time, real sleeping."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def unix_s(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))
