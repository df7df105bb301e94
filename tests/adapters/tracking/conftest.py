"""A real MLflow store to project into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openeta_exp.adapters.tracking.messages import MlflowTarget

# Before anything imports MLflow into the test process.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"


@pytest.fixture(scope="session")
def output_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all tests, because making its tables takes seconds."""
    return tmp_path_factory.mktemp("outputs")


@pytest.fixture
def target(output_root: Path, request: pytest.FixtureRequest) -> MlflowTarget:
    """An experiment of the test's own."""
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    return MlflowTarget.below(output_root, experiment_name=name)
