"""Which environments exist here, without importing a simulator."""

from __future__ import annotations

import anyio.to_thread

from openeta_exp.embedded.simulator.env_ids import LiberoId, TabletopId
from openeta_exp.embedded.simulator.libero_suites import libero_tasks
from openeta_exp.embedded.simulator.replies import EnvListing
from openeta_exp.embedded.simulator.tabletop.tasks import TASKS


async def list_environments() -> tuple[EnvListing, ...]:
    """The tabletop first, then every LIBERO task whose files are installed."""
    return await anyio.to_thread.run_sync(_listings)


def _listings() -> tuple[EnvListing, ...]:
    tabletop = (
        EnvListing(id=str(TabletopId(slug)), type="tabletop", description=task.instruction)
        for slug, task in TASKS.items()
    )
    libero = (
        EnvListing(
            id=str(LiberoId(task.suite, task.task_index)),
            type="libero",
            description=task.instruction,
        )
        for task in libero_tasks()
    )
    return (*tabletop, *libero)
