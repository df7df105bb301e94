"""Worker processes, shared fairly: an episode goes where its scene and task are already open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio

from openeta_exp.catalog.worker_process import WorkerProcess
from openeta_exp.domain.identity import JsonObject


@dataclass(slots=True, eq=False)
class _Seat:
    """One worker and what it has open."""

    worker: WorkerProcess
    affinity: str | None = None


@dataclass(slots=True, eq=False)
class _Waiting:
    affinity: str
    seated: anyio.Event = field(default_factory=anyio.Event)
    seat: _Seat | None = None


class WorkerPool:
    """At most `size` processes; they start when they are first needed.

    May be used by any number of tasks. Rebuilding a simulator costs seconds, so a free worker
    takes the oldest request for what it has open, and only without one the oldest of all.
    """

    def __init__(
        self, *, size: int, interpreter: str | None = None, search_path: Sequence[str] = ()
    ) -> None:
        self._free = [
            _Seat(WorkerProcess(interpreter=interpreter, search_path=search_path))
            for _ in range(size)
        ]
        self._seats = tuple(self._free)
        self._waiting: list[_Waiting] = []

    async def request(self, message: JsonObject, *, affinity: str, timeout_s: float) -> JsonObject:
        """Let one worker answer.

        Args:
            affinity: Requests with an equal one profit from the same worker.
            timeout_s: From the moment a worker is free; it is killed and replaced after that.

        Raises:
            SimulatorError: The worker died or took too long.
        """
        seat = await self._take(affinity)
        try:
            seat.affinity = affinity
            return await seat.worker.request(message, timeout_s=timeout_s)
        finally:
            self._give_back(seat)

    async def _take(self, affinity: str) -> _Seat:
        if self._free:
            best = min(self._free, key=lambda seat: self._cost(seat, affinity))
            self._free.remove(best)
            return best
        waiting = _Waiting(affinity)
        self._waiting.append(waiting)
        try:
            await waiting.seated.wait()
        except anyio.get_cancelled_exc_class():
            if waiting.seat is not None:
                self._give_back(waiting.seat)
            else:
                self._waiting.remove(waiting)
            raise
        assert waiting.seat is not None
        return waiting.seat

    @staticmethod
    def _cost(seat: _Seat, affinity: str) -> int:
        if seat.affinity == affinity:
            return 0
        return 2 if seat.worker.is_running else 1

    def _give_back(self, seat: _Seat) -> None:
        if not self._waiting:
            self._free.append(seat)
            return
        fitting = (each for each in self._waiting if each.affinity == seat.affinity)
        chosen = next(fitting, self._waiting[0])
        self._waiting.remove(chosen)
        chosen.seat = seat
        chosen.seated.set()

    async def aclose(self) -> None:
        """End every process. Nothing may be under way."""
        async with anyio.create_task_group() as group:
            for seat in self._seats:
                group.start_soon(seat.worker.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
