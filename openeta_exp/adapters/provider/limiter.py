"""The one gate every model call goes through, whichever role makes it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

import anyio

from openeta_exp.adapters.provider.call_counts import CallCounter, CallCounts
from openeta_exp.domain.counting import counted
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.errors import ProviderQueueTimeout
from openeta_exp.ports.clock import Clock

_INSTANT_S = 1e-6


class _Turn(Enum):
    WAITING = auto()
    GRANTED = auto()
    EXPIRED = auto()


@dataclass(slots=True, eq=False)
class _Waiter:
    """One call in the queue; `settled` is set once it no longer waits."""

    since_s: float
    paused_before_s: float
    counts: tuple[CallCounts, ...]
    turn: _Turn = _Turn.WAITING
    settled: anyio.Event = field(default_factory=anyio.Event)


class ProviderLimiter:
    """At most `limit` calls in flight, first come first served, with one pause for all.

    A call keeps its slot over its retries. A freed slot goes to whoever waits longest; nobody
    overtakes. A pause (a rate limit) stops the clock of the queue: waiting for the provider to
    be willing again is not the queue's fault.
    """

    def __init__(self, limit: int, *, queue_timeout_s: float, clock: Clock) -> None:
        """Raises: ValueError."""
        if limit < 1 or not queue_timeout_s > 0:
            raise ValueError("a limiter needs at least one slot and a positive queue timeout")
        self._limit = limit
        self._queue_timeout_s = queue_timeout_s
        self._clock = clock
        self.calls = CallCounter(limit=limit, queue_timeout_s=queue_timeout_s)
        """Of everybody who shares the limiter."""
        self._queue: deque[_Waiter] = deque()
        self._active = 0
        self._pause_since_s = 0.0
        self._pause_until_s = 0.0
        self._past_pauses_s = 0.0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Hold a slot; gives the seconds that were spent in the queue.

        Raises:
            ProviderQueueTimeout: None came free in time.
        """
        counts = self.calls.here()
        waited_s = await self._acquire(counts)
        try:
            yield waited_s
        finally:
            self._release(counts)

    def pause(self, seconds: float) -> None:
        """Let nobody send for so long from now; a longer pause that is on already stays."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._pause_until_s:
            self._past_pauses_s += self._pause_until_s - self._pause_since_s
            self._pause_since_s, self._pause_until_s = now_s, now_s
            for counts in self.calls.here():
                counts.pauses += 1
        self._pause_until_s = max(self._pause_until_s, now_s + seconds)

    async def unpaused(self) -> None:
        """Return once there is no pause. Called with a slot in hand, before every request."""
        while (left_s := self._pause_until_s - self._clock.monotonic_s()) > 0:
            await self._clock.sleep(left_s)

    def metrics(self) -> ProviderMetrics:
        """Of every call so far."""
        return self.calls.metrics()

    async def _acquire(self, counts: tuple[CallCounts, ...]) -> float:
        for each in counts:
            each.requests += 1
        if self._active < self._limit and not self._queue:
            self._occupy(counts)
            return 0.0
        now_s = self._clock.monotonic_s()
        waiter = _Waiter(since_s=now_s, paused_before_s=self._paused_s(now_s), counts=counts)
        self._queue.append(waiter)
        arrived = False
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._expire, waiter)
                await waiter.settled.wait()
                group.cancel_scope.cancel()
            arrived = True
        finally:
            if not arrived:
                self._abandon(waiter)
        waited_s = self._clock.monotonic_s() - waiter.since_s
        for each in counts:
            each.waited(waited_s)
        if waiter.turn is _Turn.EXPIRED:
            raise ProviderQueueTimeout(
                f"none of {counted(self._limit, 'provider slot')} came free in "
                f"{self._queue_timeout_s:g} s; "
                "raise concurrency.provider or concurrency.provider_queue_timeout_s"
            )
        return waited_s

    async def _expire(self, waiter: _Waiter) -> None:
        """Take a waiter out of the queue when its time is up."""
        while (left_s := self._left_s(waiter)) > _INSTANT_S:
            await self._clock.sleep(left_s)
        if waiter.turn is _Turn.WAITING:
            self._queue.remove(waiter)
            for counts in waiter.counts:
                counts.queue_timeouts += 1
            waiter.turn = _Turn.EXPIRED
            waiter.settled.set()

    def _left_s(self, waiter: _Waiter) -> float:
        """Until the waiter expires, if no further pause comes."""
        now_s = self._clock.monotonic_s()
        paused_s = self._paused_s(now_s) - waiter.paused_before_s
        queued_s = now_s - waiter.since_s - paused_s
        return self._queue_timeout_s - queued_s + max(0.0, self._pause_until_s - now_s)

    def _paused_s(self, now_s: float) -> float:
        """All pauses so far."""
        return self._past_pauses_s + min(now_s, self._pause_until_s) - self._pause_since_s

    def _occupy(self, counts: tuple[CallCounts, ...]) -> None:
        self._active += 1
        for each in counts:
            each.begin()

    def _release(self, counts: tuple[CallCounts, ...]) -> None:
        self._active -= 1
        for each in counts:
            each.active -= 1
        while self._queue and self._active < self._limit:
            waiter = self._queue.popleft()
            waiter.turn = _Turn.GRANTED
            self._occupy(waiter.counts)
            waiter.settled.set()

    def _abandon(self, waiter: _Waiter) -> None:
        """The caller was cancelled in the queue, or just as its slot came."""
        if waiter.turn is _Turn.GRANTED:
            self._release(waiter.counts)
        elif waiter.turn is _Turn.WAITING:
            self._queue.remove(waiter)
