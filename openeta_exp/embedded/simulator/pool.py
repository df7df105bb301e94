"""Hands out environment processes: warm ones of the same task first, never more than allowed."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass

import anyio

from openeta_exp.domain.counting import counted
from openeta_exp.embedded.simulator.env_ids import EnvId
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
    """Handed out with the wanted task already built."""
    rebuilt: int
    """Handed out to build another task of the same simulator."""
    replaced: int
    """Ended to make room for another simulator."""


class WorkerPool:
    """At most `capacity` processes. Callers that have to wait are served in order.

    An idle process that has the wanted task built is preferred; else a new one is started
    while there is room; else the idle process that has rested longest gives way, by building
    the wanted task if it runs the same simulator, which saves LIBERO's imports.
    """

    def __init__(self, capacity: int, gl: Gl) -> None:
        self._gl = gl
        self._slots = anyio.Semaphore(capacity)
        self._capacity = capacity
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._numbers = itertools.count(1)
        self._started = self._reused = self._rebuilt = self._replaced = 0
        self._closed = False

    async def take(self, env_id: EnvId, *, timeout_s: float) -> WorkerProcess:
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
                f"of {counted(self._capacity, 'environment')} none is free; none was closed in "
                f"{timeout_s:g} s"
            ) from error
        try:
            worker = await self._pick(env_id)
        except BaseException:
            self._slots.release()
            raise
        self._busy.add(worker)
        if self._closed:
            await self.give_back(worker)
            raise PoolExhausted("the simulator is shutting down", code="simulator_shutting_down")
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
            rebuilt=self._rebuilt,
            replaced=self._replaced,
        )

    async def _pick(self, env_id: EnvId) -> WorkerProcess:
        """Runs with a slot held, so one of these ways is always open."""
        for dead in [worker for worker in self._idle if not worker.alive]:
            self._idle.remove(dead)
            await dead.end()
        warm = next((worker for worker in self._idle if worker.affinity == env_id.affinity), None)
        if warm is not None:
            self._idle.remove(warm)
            self._reused += 1
            return warm
        # Claimed before the next await: two callers must not get the same process.
        if self._idle and len(self._idle) + len(self._busy) >= self._capacity:
            kin = [worker for worker in self._idle if worker.family == env_id.family]
            gives_way = kin[0] if kin else self._idle[0]
            self._idle.remove(gives_way)
            if kin:
                self._rebuilt += 1
                return gives_way
            logger.info("%s (%s) makes room for %s", gives_way.name, gives_way.affinity, env_id)
            self._replaced += 1
            await gives_way.end()
        self._started += 1
        worker = await WorkerProcess.start(self._gl, name=f"environment-{next(self._numbers)}")
        worker.family = env_id.family
        return worker
