"""One sandbox for all programs of a module: starting its worker is what takes time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from openeta_exp.adapters.sandbox.monty import MontySandbox


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[MontySandbox]:
    sandbox = MontySandbox(max_processes=1)
    yield sandbox
    await sandbox.aclose()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
