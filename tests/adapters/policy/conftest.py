"""The marker of the tests that install other versions of vla-eval."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "vla_eval: drives real vla-eval servers in environments made for the test"
    )
