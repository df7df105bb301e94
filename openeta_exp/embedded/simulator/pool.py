"""Hands out environment processes: warm ones of the same task first, never more than allowed."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass

import anyio

from openeta_exp.embedded.simulator.gl import Gl
from openeta_exp.embedded.simulator.worker_process import WorkerProcess
from openeta_exp.errors import SimulatorError

logger = logging.getLogger(__name__)


class PoolExhausted(SimulatorError):  # noqa: N818 - the fact, not the category
    """Every process was busy for longer than the caller could wait."""

    default_code = "simulator_capacity_timeout"


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """How the pool stands and what it has done."""

    busy: int
    idle: int
    started: int
    reused: int
    replaced: int


class WorkerPool:
    """At most `capacity` processes. Callers that have to wait are served in order.

    An idle process that has the wanted task built is preferred; else a new one is started
    while there is room; else the idle process that has rested longest makes room.
    """

    def __init__(self, capacity: int, gl: Gl) -> None:
        self._gl = gl
        self._slots = anyio.Semaphore(capacity)
        self._capacity = capacity
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._numbers = itertools.count(1)
        self._started = self._reused = self._replaced = 0
        self._closed = False

    async def take(self, affinity: str, *, timeout_s: float) -> WorkerProcess:
        """A process for the exclusive use of one environment, until `give_back`.

        Raises:
            PoolExhausted: If none came free in time.
            WorkerLost: If none could be started.
        """
        try:
            with anyio.fail_after(timeout_s):
                await self._slots.acquire()
        except TimeoutError as error:
            raise PoolExhausted(
                f"all {self._capacity} environments are in use; none was closed in {timeout_s:g} s"
            ) from error
        try:
            worker = await self._pick(affinity)
        except BaseException:
            self._slots.release()
            raise
        self._busy.add(worker)
        return worker

    async def give_back(self, worker: WorkerProcess) -> None:
        """Keep the process warm for the next environment of its task, if it still lives."""
        if worker not in self._busy:
            return
        self._busy.discard(worker)
        if worker.alive and worker.affinity and not self._closed:
            self._idle.append(worker)
        else:
            await worker.end()
        self._slots.release()

    async def close(self) -> None:
        """End every process. Idempotent."""
        self._closed = True
        workers, self._idle = [*self._idle, *self._busy], []
        async with anyio.create_task_group() as group:
            for worker in workers:
                group.start_soon(worker.end)

    def counts(self) -> PoolCounts:
        return PoolCounts(
            busy=len(self._busy),
            idle=len(self._idle),
            started=self._started,
            reused=self._reused,
            replaced=self._replaced,
        )

    async def _pick(self, affinity: str) -> WorkerProcess:
        """Runs with a slot held, so one of three ways is always open."""
        for dead in [worker for worker in self._idle if not worker.alive]:
            self._idle.remove(dead)
            await dead.end()
        match = next((worker for worker in self._idle if worker.affinity == affinity), None)
        if match is not None:
            self._idle.remove(match)
            self._reused += 1
            return match
        # Claimed before the next await: two callers must not end the same process.
        victim = None
        if len(self._idle) + len(self._busy) >= self._capacity:
            victim = self._idle.pop(0)
        if victim is not None:
            logger.info("%s (%s) makes room for %s", victim.name, victim.affinity, affinity)
            self._replaced += 1
            await victim.end()
        self._started += 1
        return await WorkerProcess.start(self._gl, name=f"environment-{next(self._numbers)}")
