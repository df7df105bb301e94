"""Fixtures every test may use."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import settings

# How long an example takes says something about the machine's other users.
settings.register_profile("machine-is-shared", deadline=None)
settings.load_profile("machine-is-shared")


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio; trio is not a supported backend."""
    return "asyncio"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Released model servers are installed by uv, and left out where there is none."""
    if shutil.which("uv") is not None:
        return
    left_out = [item for item in items if item.get_closest_marker("vla_eval") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
