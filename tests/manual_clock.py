"""Clocks that tests move by hand."""

from __future__ import annotations

import heapq
from itertools import count

import anyio
import anyio.lowlevel

SETTLING_ROUNDS = 30


async def settle() -> None:
    """Let every task that can run do so, until all of them wait for the clock.

    `anyio.wait_all_tasks_blocked` takes a task for blocked whose cancellation is on its way.
    """
    for _ in range(SETTLING_ROUNDS):
        await anyio.lowlevel.checkpoint()


class ManualClock:
    """Stands still until it is advanced; whoever sleeps wakes up in order."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._order = count()

    def monotonic_s(self) -> float:
        return self.now_s

    def unix_s(self) -> float:
        return 1_700_000_000.0 + self.now_s

    async def sleep(self, seconds: float) -> None:
        awake = anyio.Event()
        heapq.heappush(self._sleepers, (self.now_s + seconds, next(self._order), awake))
        await awake.wait()

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, and everything happen that is due in it."""
        await settle()
        until_s = self.now_s + seconds
        while self._sleepers and self._sleepers[0][0] <= until_s:
            self.now_s, _, awake = heapq.heappop(self._sleepers)
            awake.set()
            await settle()
        self.now_s = until_s


class SkippingClock(ManualClock):
    """Sleeping takes no time but moves the clock; `slept_s` is what was asked for.

    Sleeps of more than `LONGEST_S` never end: they are limits that are not meant to run out.
    """

    LONGEST_S = 60.0

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        if seconds > self.LONGEST_S:
            await anyio.sleep_forever()
        self.slept_s.append(seconds)
        self.now_s += seconds
        await anyio.lowlevel.checkpoint()
