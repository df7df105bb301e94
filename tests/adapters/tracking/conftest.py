"""A real MLflow store to project into."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from openeta_exp.adapters.tracking.messages import MlflowTarget

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# Before anything imports MLflow into the test process.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where there is no browser, nobody can look at a page."""
    if any(map(shutil.which, BROWSERS)):
        return
    blind = [item for item in items if item.get_closest_marker("browser")]
    if blind:
        config.hook.pytest_deselected(items=blind)
        items[:] = [item for item in items if item not in blind]


@pytest.fixture(scope="session")
def output_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all tests, because making its tables takes seconds."""
    return tmp_path_factory.mktemp("outputs")


@pytest.fixture
def target(output_root: Path, request: pytest.FixtureRequest) -> MlflowTarget:
    """An experiment of the test's own."""
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    return MlflowTarget.below(output_root, experiment_name=name)
