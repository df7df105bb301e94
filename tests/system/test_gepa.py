"""`author=gepa` as a user starts it, on the real tabletop, killed in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.event import (
    AuthorAnswered,
    BatchStarted,
    CandidateProposed,
    EpisodeEnded,
    Event,
)
from openeta_exp.engine.lineage import AUTHORING
from tests.processes import environment, mind_ctrl_c, of_test

pytestmark = pytest.mark.slow

LIMIT_S = 400
MAX_EPISODES = 7
TASKS = (
    ("openeta/tabletop_box_on_shelf-v0", "put the box on the shelf"),
    ("openeta/tabletop_pick_bottle_basket-v0", "pick up the bottle and place it in the basket"),
    ("openeta/tabletop_pick_cup_basket-v0", "pick up the cup and place it in the basket"),
)
COMMAND = (
    "+experiment=tabletop_iterate",
    "author=gepa",
    f"author.max_episodes={MAX_EPISODES}",
    "author.episodes_per_candidate=3",
    "manifest.path=train.json",
    "simulator.quality=fast",
    "tracking=none",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        {"episode_id": f"train-{place}", "env_id": env_id, "task": task}
        for place, (env_id, task) in enumerate(TASKS)
    ]
    (tmp_path / "train.json").write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path


def stopped_at(folder: Path, *said: str, by: signal.Signals) -> int:
    """Start the command, stop it once it has said these in order, and return its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-m", "openeta_exp", *COMMAND],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A shell gives its background jobs an interrupt they ignore.
        preexec_fn=mind_ctrl_c,
    )
    assert process.stderr is not None
    text = ""
    until_s = time.monotonic() + LIMIT_S
    for each in said:
        line = ""
        while each not in line:
            assert process.poll() is None, text
            assert time.monotonic() < until_s, text
            line = process.stderr.readline()
            text += line
    process.send_signal(by)
    process.communicate(timeout=LIMIT_S)
    psutil.wait_procs(of_test(folder), timeout=60)
    return process.returncode


def facts(folder: Path) -> list[Event]:
    path = folder / "outputs" / "experiments" / "tabletop_iterate" / "journal.sqlite"
    journal = SqliteJournal(path, read_only=True)
    try:
        return [event for _, event in journal.events()]
    finally:
        journal.close()


def test_a_killed_search_goes_on_within_its_budget_and_ends_with_a_proposal(folder: Path) -> None:
    stopped_at(folder, "-author · arm author", ": solved", by=signal.SIGKILL)
    before = [event for event in facts(folder) if isinstance(event, AuthorAnswered)]
    code = stopped_at(folder, "author:gepa proposes", by=signal.SIGINT)
    events = facts(folder)

    proposed = [event for event in events if isinstance(event, CandidateProposed)]
    runs = [event for event in events if isinstance(event, EpisodeEnded)]
    keys = [(event.outcome.arm_digest, event.outcome.spec_digest) for event in runs]
    authored = [event for event in runs if AUTHORING in event.batch_id]
    train = {
        spec.content_digest
        for event in events
        if isinstance(event, BatchStarted) and event.phase == "train"
        for spec in event.manifest.episodes
    }
    assert code == 130
    assert before, "it was killed while it searched"
    assert proposed[0].proposal.candidate is not None
    assert proposed[0].proposal.candidate.supporting_episode_ids
    assert proposed[0].proposal.effort.episodes == len(authored)
    assert 0 < len(authored) <= MAX_EPISODES
    assert {event.outcome.spec_digest for event in authored} <= train
    assert len(keys) == len(set(keys)), "no episode that had ended was run again"
