"""Fixtures every test may use."""

from __future__ import annotations

import pytest
from hypothesis import settings

# How long an example takes says something about the machine's other users.
settings.register_profile("machine-is-shared", deadline=None)
settings.load_profile("machine-is-shared")


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio; trio is not a supported backend."""
    return "asyncio"
