"""A multirun as a user starts it: every job a process, the lineages compared at the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.event import EpisodeEnded, GenerationEnded
from tests.processes import environment, of_test

LIMIT_S = 300
CAN = {
    "env_id": "openeta/tabletop_pick_can_basket-v0",
    "task": "pick up the can and place it in the basket",
}
BOX = {
    "env_id": "openeta/tabletop_pick_box_basket-v0",
    "task": "pick up the box and place it in the basket",
}
# One turn and no camera: what is tested is what follows what, not how well it goes.
ITERATE = """command=iterate manifest.path=train.json canary.path=canary.json
  held_out.path=held_out.json gate=no_regression gate.strategy=null simulator.cameras=[]
  perception=none lineage.generations=2 lineage.confirmation_pairs=0"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    seeds = {"first": 2, "last": 40}
    manifests: dict[str, list[dict[str, object]]] = {
        "train": [{**CAN, "episode_id": "can-0", "max_turns": 1}],
        "canary": [{**CAN, "episode_id": "can-1", "seed": 1}],
        "held_out": [
            {**CAN, "episode_id": "can", "seeds": seeds},
            {**BOX, "episode_id": "box", "seeds": seeds},
        ],
    }
    for name, rows in manifests.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "openeta_exp", "-m", "tracking=none", *arguments],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def test_generations_go_on_after_a_kill_and_are_known_afterwards(folder: Path) -> None:
    sweep = (*ITERATE.split(), "generation=range(2)", "experiment_id='77'")
    killed = start(folder, *sweep)
    assert killed.stderr is not None
    said = ""
    while "generation 0 starts" not in said:
        said += killed.stderr.readline()
    killed.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(of_test(folder), timeout=60)
    killed.communicate(timeout=LIMIT_S)

    resumed = run(folder, *sweep)
    again = run(folder, *sweep)

    assert not alive, "the job ends with its sweep"
    assert (resumed[0], again[0]) == (0, 0), resumed[2]
    assert "0 ran, 1 ran" in resumed[1]
    assert "0 known, 1 known" in again[1]
    path = folder / "outputs" / "experiments" / "77" / "journal.sqlite"
    journal = SqliteJournal(path, read_only=True)
    events = [event for _, event in journal.events()]
    journal.close()
    assert [e.result.generation for e in events if isinstance(e, GenerationEnded)] == [0, 1]
    assert len([event for event in events if isinstance(event, EpisodeEnded)]) == 1


def test_a_job_that_fails_fails_the_sweep_and_no_other_lineage(folder: Path) -> None:
    code, out, err = run(
        folder,
        "hydra/launcher=generations",
        "command=validate",
        "manifest.path=choice(missing.json,train.json)",
        "concurrency.lineages=2",
    )

    assert code == 2
    assert "all failed (2)" in out
    assert "all ran" in out
    assert "experiment-path-missing.json" in out
    assert "[missing.json] missing.json: cannot be read" in err
    assert '[train.json] {"valid": true' in err


def test_a_failure_in_generation_1_ends_its_lineage_and_a_rerun_finishes_it(folder: Path) -> None:
    sweep = (
        *ITERATE.split(),
        "generation=range(3)",
        "lineage.generations=3",
        "approvement=standard,reviewed_autonomy",
        "concurrency.lineages=2",
        "experiment_id=pair",
    )
    process = start(folder, *sweep)
    assert process.stderr is not None
    said = ""
    while "[standard] generation 1 starts" not in said:
        said += process.stderr.readline()
    (job,) = jobs_of(folder, "approvement=standard", "++generation=1")
    job.kill()
    out, _ = process.communicate(timeout=LIMIT_S)

    again = run(folder, *sweep)

    assert process.returncode == 3, "killed from outside, so no bug"
    assert "0 ran, 1 failed " in out
    assert "(signal 9), 2 not" in out
    assert "0 ran, 1 ran, 2 ran " in out
    assert again[0] == 0, again[2]
    assert "0 known, 1 ran, 2 " in again[1]
    assert "0 known, 1 known, 2 " in again[1]
    for name in ("pair-approvement-standard", "pair-approvement-reviewed_autonomy"):
        path = folder / "outputs" / "experiments" / name / "journal.sqlite"
        journal = SqliteJournal(path, read_only=True)
        events = [event for _, event in journal.events()]
        journal.close()
        assert [e.result.generation for e in events if isinstance(e, GenerationEnded)] == [0, 1, 2]
        # What was promoted nowhere is the same baseline everywhere: trained once.
        assert len([event for event in events if isinstance(event, EpisodeEnded)]) == 1


def jobs_of(folder: Path, *arguments: str) -> list[psutil.Process]:
    """The processes that were started with all of these."""
    return [each for each in of_test(folder) if set(arguments) <= set(each.cmdline())]


def test_mistakes_of_every_job_are_said_before_any_is_run(folder: Path) -> None:
    code, out, err = run(
        folder,
        *ITERATE.split(),
        "generation=range(4)",
        "concurrency.episodes=2,200",
        "lineage.fdr=7",
    )

    assert code == 2
    assert out == ""
    assert err.splitlines() == [
        "command line: lineage.fdr = 7: must be less than 1.0",
        "command line: concurrency.episodes = 200: must be at most 32",
    ]
    assert not (folder / "outputs" / "experiments").exists()
