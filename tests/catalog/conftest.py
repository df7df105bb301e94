"""One worker process per test module: most tests need a process, few need a fresh one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openeta_exp.catalog.pool import WorkerPool


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Of module scope, so that the tests of a module share a loop and its processes."""
    return "asyncio"


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[WorkerPool]:
    async with WorkerPool(size=1, search_path=[str(Path.cwd())]) as workers:
        yield workers
