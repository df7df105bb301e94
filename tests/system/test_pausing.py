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
from openeta_exp.adapters.tracking.messages import MlflowTarget
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.event import EpisodeEnded
from openeta_exp.wire.batch_result import BatchResult, parse_batch_result
from tests.adapters.tracking.mlflow_page import Page
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


def start(folder: Path, *overrides: str, tracking: str = "none") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "openeta_exp", f"tracking={tracking}", *overrides],
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


CLEAR = {**EPISODE, "episode_id": "clear", "task": "pick up the can and place it in the basket"}


def test_every_place_says_the_same_of_a_batch_in_which_an_episode_was_answered(
    folder: Path,
) -> None:
    (folder / "episodes.json").write_text(json.dumps([EPISODE, CLEAR]), encoding="utf-8")
    run = (
        "manifest.path=episodes.json",
        "simulator.quality=fast",
        "approvement=reviewed_autonomy",
        "on_need_human=pause",
    )
    assert finish(start(folder, *run, tracking="mlflow"))[0] == 0
    experiment = folder / "outputs" / "experiments" / "experiment"
    at_first = _result(experiment)
    code, again = finish(start(folder, *run, tracking="mlflow"))
    (question,) = json.loads(finish(start(folder, "command=pending", "format=json"))[1])[
        "questions"
    ]
    answer = (
        f"session_id={question['session_id']}",
        f"interaction_id={question['interaction_id']}",
        f"answer={ANSWER}",
    )
    assert finish(start(folder, "command=resume", *answer, tracking="mlflow"))[0] == 0

    assert (code, "episodes that wait for a person: 1 of 2; `command=pending`" in again) == (
        0,
        True,
    )
    assert "verdict from before" not in again
    result, run_id, shown = _result(experiment), *_shown(folder)
    inspected = json.loads(finish(start(folder, "command=inspect", "command.format=json"))[1])
    (batch,) = inspected["batches"]
    assert (result.success_count, result.human_assisted_success_count) == (2, 1)
    assert batch["summary"]["tally"]["success_count"] == 2
    assert (shown["summary/successes"], shown["summary/assisted_successes"]) == (2, 1)
    assert (shown["summary/success_rate"], shown["episodes/success_rate"]) == (1, 1)
    # The account of money has every token once, and so has everybody else.
    spent = _spent(experiment)
    assert sum(row.usage.tokens.total_tokens for row in result.outcomes) == spent
    assert (inspected["tokens"], batch["summary"]["tokens"]["total_tokens"]) == (spent, spent)
    assert (shown["summary/tokens_total"], shown["episodes/tokens_total"]) == (spent, spent)
    # A resumed episode is no run of its batch, which keeps the model calls of the run it had.
    assert at_first.provider_concurrency is not None
    calls = at_first.provider_concurrency.request_count
    assert calls > 0
    assert at_first.provider_concurrency == result.provider_concurrency
    assert shown["summary/provider_requests"] == calls
    assert batch["summary"]["provider"]["request_count"] == calls

    assert finish(start(folder, "command=track", tracking="mlflow"))[0] == 0
    assert _shown(folder) == (run_id, shown)


def _result(experiment: Path) -> BatchResult:
    path = experiment / "generations/000/train/result.json"
    return parse_batch_result(path.read_bytes(), source=str(path))


def _shown(folder: Path) -> tuple[str, dict[str, float]]:
    """The only run in MLflow, and its metrics."""
    target = MlflowTarget.below(folder / "outputs", experiment_name="experiment")
    (run,) = Page(target).runs()
    return run.info.run_id, dict(run.data.metrics)


def _spent(experiment: Path) -> int:
    journal = SqliteJournal(experiment / "journal.sqlite", read_only=True)
    try:
        return sum(row.tokens.total for row in journal.spending.spent())
    finally:
        journal.close()


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
