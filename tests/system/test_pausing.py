"""A question outlives the process that asked it, and the one that was answering it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.event import EpisodeEnded
from tests.processes import environment

LIMIT_S = 300
EPISODE = {
    "episode_id": "vague",
    "env_id": "openeta/tabletop_pick_can_basket-v0",
    "task": "tidy up the table",
    "seed": 1,
    "max_turns": 30,
}
ANSWER = "pick up the can, and place it in the basket"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "episodes.json").write_text(json.dumps([EPISODE]), encoding="utf-8")
    return tmp_path


def start(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "openeta_exp", "tracking=none", *overrides],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out + err


def until(there: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file is there, as long as the process that will write it lives."""
    pause = threading.Event()
    while not there.exists():
        assert process.poll() is None, process.communicate()
        pause.wait(0.02)


def test_a_question_survives_kill_9_two_answers_and_a_changed_manifest(folder: Path) -> None:
    asked = start(
        folder,
        "manifest.path=episodes.json",
        "simulator.quality=fast",
        "approvement=reviewed_autonomy",
        "on_need_human=pause",
    )
    assert finish(asked)[0] == 0
    code, listed = finish(start(folder, "command=pending", "format=json"))
    assert code == 0
    (question,) = json.loads(listed)["questions"]
    session = f"session_id={question['session_id']}"
    reply = f"interaction_id={question['interaction_id']}"
    # What was asked is answered, whatever becomes of the file.
    (folder / "episodes.json").write_text("[]", encoding="utf-8")

    killed = start(folder, "command=resume", session, reply, f"answer={ANSWER}")
    experiment = folder / "outputs" / "experiments" / "experiment"
    until(experiment / "interactions" / "claimed" / f"{question['session_id']}.json", killed)
    killed.send_signal(signal.SIGKILL)
    finish(killed)
    both = [start(folder, "command=resume", session) for _ in range(2)]
    ended = [finish(each) for each in both]

    assert sorted(code for code, _ in ended) == [0, 2]
    refused = next(text for code, text in ended if code == 2)
    assert "was answered already" in refused or "has no pending question" in refused
    report = json.loads(next(text for code, text in ended if code == 0).split("\ntracked")[0])
    assert report["schema_version"] == "openeta.parallel_episode_resume.v1"
    assert report["outcome"]["status"] == "success"
    assert report["outcome"]["assistance"]["human_intervention_count"] == 1
    result = json.loads((experiment / "generations/000/train/result.json").read_text("utf-8"))
    assert (result["success_count"], result["need_human_count"]) == (1, 0)
    assert (result["autonomous_success_count"], result["human_assisted_success_count"]) == (0, 1)
    assert _results(experiment) == [False, True]
    assert list((experiment / "interactions").rglob("*.json")) == []


def _results(experiment: Path) -> list[bool]:
    journal = SqliteJournal(experiment / "journal.sqlite", read_only=True)
    try:
        return [
            event.outcome.success
            for _, event in journal.events()
            if isinstance(event, EpisodeEnded) and isinstance(event.outcome, EpisodeResult)
        ]
    finally:
        journal.close()
