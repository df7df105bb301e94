"""Several lineages of generations: what follows what, what is done already, what runs beside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import anyio

from openeta_exp.engine.sweep_grouping import SweptLineage

Asked = TypeVar("Asked")
"""What a job needs to be run."""


class JobState(StrEnum):
    """What became of a job."""

    RAN = "ran"
    KNOWN = "known"
    """Finished by an earlier command, and not run again."""
    FAILED = "failed"
    STOPPED = "stopped"
    """It would have spent more than it may; the same command with a higher cap goes on."""
    NOT_RUN = "not run"
    """A generation before it failed or was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd(Generic[Asked]):
    """How one job ended.

    Attributes:
        exit_code: Of the job's process; 0 unless it failed.
    """

    job: Asked
    state: JobState
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageEnd(Generic[Asked]):
    """How the jobs of one lineage ended, in the order of their generations."""

    lineage: SweptLineage[Asked]
    jobs: tuple[JobEnd[Asked], ...]

    @property
    def failed(self) -> JobEnd[Asked] | None:
        return next((end for end in self.jobs if end.state is JobState.FAILED), None)


async def run_lineages(
    lineages: Sequence[SweptLineage[Asked]],
    *,
    at_once: int,
    is_finished: Callable[[Asked], bool],
    run_job: Callable[[Asked], Awaitable[int | None]],
) -> tuple[LineageEnd[Asked], ...]:
    """Run the jobs of each lineage one after the other, and lineages beside each other.

    A failed or stopped job ends its lineage, because the next generation has nothing to start
    from; other lineages go on.

    Args:
        at_once: Lineages that run at the same time.
        is_finished: Asked right before a job would be run.
        run_job: Returns the job's exit code, or None if a cap of `money` has stopped it.
    """
    ends: dict[int, LineageEnd[Asked]] = {}
    limiter = anyio.CapacityLimiter(at_once)

    async def run(place: int, lineage: SweptLineage[Asked]) -> None:
        async with limiter:
            ends[place] = await _run_lineage(lineage, is_finished=is_finished, run_job=run_job)

    async with anyio.create_task_group() as group:
        for place, lineage in enumerate(lineages):
            group.start_soon(run, place, lineage)
    return tuple(ends[place] for place in range(len(lineages)))


async def _run_lineage(
    lineage: SweptLineage[Asked],
    *,
    is_finished: Callable[[Asked], bool],
    run_job: Callable[[Asked], Awaitable[int | None]],
) -> LineageEnd[Asked]:
    ends: list[JobEnd[Asked]] = []
    has_broken_off = False
    for job in lineage.jobs:
        if has_broken_off:
            ends.append(JobEnd(job=job, state=JobState.NOT_RUN))
        elif is_finished(job):
            ends.append(JobEnd(job=job, state=JobState.KNOWN))
        else:
            exit_code = await run_job(job)
            has_broken_off = exit_code != 0
            ends.append(JobEnd(job=job, state=_state(exit_code), exit_code=exit_code or 0))
    return LineageEnd(lineage=lineage, jobs=tuple(ends))


def _state(exit_code: int | None) -> JobState:
    if exit_code is None:
        return JobState.STOPPED
    return JobState.RAN if exit_code == 0 else JobState.FAILED
