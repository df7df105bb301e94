"""Which launcher runs the jobs of one command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openeta_exp.multirun import with_launcher

ROOT = Path(__file__).resolve().parents[1]
LAUNCHER = "hydra/launcher=generations"


@pytest.mark.parametrize("multirun", ["-m", "--multirun", "hydra.mode=MULTIRUN"])
@pytest.mark.parametrize("generation", ["generation=range(3)", "++generation=0,1"])
def test_generations_that_are_swept_choose_their_launcher(multirun: str, generation: str) -> None:
    assert LAUNCHER in with_launcher([multirun, "+experiment=e", generation, "gate=a,b"])


@pytest.mark.parametrize(
    "line",
    [
        "generation=1",
        "-m",
        "-m generation=range(3) hydra/launcher=basic",
        "-m approvement=standard,reviewed_autonomy hydra/launcher=joblib",
    ],
)
def test_other_command_lines_keep_theirs(line: str) -> None:
    assert with_launcher(line.split()) == line.split()


def test_sweeping_may_be_asked_for_anywhere_on_the_line() -> None:
    line = with_launcher(["command=iterate", "--multirun", "generation=range(3)"])

    assert line == ["--multirun", LAUNCHER, "command=iterate", "generation=range(3)"]


def test_a_sweep_without_generations_gets_an_experiment_for_each_job_as_well() -> None:
    line = with_launcher(["-m", "--config-dir=conf", "approvement=standard,reviewed_autonomy"])

    assert line == ["-m", "--config-dir=conf", LAUNCHER, "approvement=standard,reviewed_autonomy"]


def test_hydra_finds_the_launcher_from_any_directory(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "openeta_exp", "--info", "plugins"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "GenerationsLauncher" in shown.stdout
