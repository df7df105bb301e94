"""The projector against a real MLflow store."""

from __future__ import annotations

import json
import queue
import sqlite3
from collections.abc import Mapping, Sequence

import pytest

from openeta_exp.adapters.tracking.messages import Fact, Farewell, FromProjector, MlflowTarget
from openeta_exp.adapters.tracking.mlflow_runs import MLFLOW_ERRORS, MlflowRuns, place
from openeta_exp.adapters.tracking.projector import Projector, serve
from openeta_exp.domain.event import Event
from tests.adapters.tracking.mlflow_page import Page
from tests.batches import (
    AT_S,
    arm,
    batch_ended,
    broke,
    ended,
    lost,
    manifest,
    spec,
    started,
    story,
    won,
)


def show(target: MlflowTarget, events: Sequence[Event]) -> Projector:
    """A projector that is started anew, as with each run of the program."""
    projector = Projector(lambda: MlflowRuns(target))
    for seq, event in enumerate(events, start=1):
        projector.add(seq, event)
    projector.flush()
    return projector


def test_a_batch_becomes_one_run_with_everything_on_it(target: MlflowTarget) -> None:
    show(target, list(story(manifest(3), [won(spec(0)), lost(spec(1)), broke(spec(2))])))

    page = Page(target)
    (run,) = page.runs()
    assert run.info.status == "FINISHED"
    assert run.info.start_time == int(AT_S * 1000)
    assert run.data.tags["arm_digest"] == arm().content_digest
    assert run.data.params["provider.model"] == "scripted-planner"
    assert run.data.metrics["summary/success_rate_over_results"] == 0.5
    assert page.history("episodes/success_rate") == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert json.loads(page.text("result.json"))["success_count"] == 1
    assert len(json.loads(page.text("outcomes.json"))["data"]) == 3


def test_showing_everything_again_changes_nothing(target: MlflowTarget) -> None:
    facts = list(story(manifest(2), [won(spec(0)), lost(spec(1))]))
    show(target, facts)
    page = Page(target)
    (before,) = page.runs()

    show(target, facts)

    (after,) = page.runs()
    assert after.to_dictionary() == before.to_dictionary()
    assert len(page.history("episodes/turns")) == 2


def test_a_resumed_batch_goes_on_in_the_same_run(target: MlflowTarget) -> None:
    first: list[Event] = [started(manifest(3)), ended(won(spec(0))), batch_ended(interrupted=True)]
    second: list[Event] = [
        started(manifest(3)).model_copy(update={"concurrency": 8, "at_s": AT_S + 100}),
        ended(lost(spec(1))),
        ended(won(spec(2))),
        batch_ended(),
    ]
    page = Page(target)
    show(target, first)
    assert page.runs()[0].info.status == "KILLED"

    show(target, [*first, *second[:2]])
    assert page.runs()[0].info.status == "RUNNING"

    show(target, [*first, *second])
    (run,) = page.runs()
    assert run.info.status == "FINISHED"
    assert run.data.tags["runs"] == "2"
    # A parameter says what the first run was started with: MLflow forbids to change it.
    assert run.data.params["concurrency"] == "4"
    assert page.history("episodes/success_rate") == [(1, 1.0), (2, 0.5), (3, 2 / 3)]
    assert run.data.metrics["summary/successes"] == 2


def test_each_arm_has_its_own_run_and_so_has_each_journal(target: MlflowTarget) -> None:
    show(
        target,
        [
            started(manifest(1), of=arm("baseline"), batch_id="canary"),
            started(manifest(1), of=arm("candidate", tree="b"), batch_id="canary"),
        ],
    )
    show(target, [started(manifest(1), batch_id="canary").model_copy(update={"at_s": AT_S + 1})])

    assert sorted(run.info.run_name for run in Page(target).runs()) == [
        "g0 train",
        "g0 train baseline",
        "g0 train candidate",
    ]


def test_what_was_half_shown_is_shown_whole_and_once_later(target: MlflowTarget) -> None:
    class Stumbling(MlflowRuns):
        """Fails between the metrics and the mark that says they are there."""

        def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
            if "openeta.journal_seq" in tags and not stumbled:
                stumbled.append(run_id)
                raise OSError("connection reset")
            super().tag(run_id, tags)

    stumbled: list[str] = []
    projector = Projector(lambda: Stumbling(target))
    facts = list(story(manifest(2), [won(spec(0)), lost(spec(1))]))
    for seq, fact in enumerate(facts[:-1], start=1):
        projector.add(seq, fact)
    with pytest.raises(MLFLOW_ERRORS):
        projector.flush()
    projector.add(len(facts), facts[-1])
    shown = projector.flush()

    page = Page(target)
    assert shown is not None
    assert shown.seq == len(facts)
    assert page.history("episodes/success_rate") == [(1, 1.0), (2, 0.5)]
    assert page.runs()[0].data.tags["openeta.journal_seq"] == str(len(facts))


def test_a_store_that_is_away_is_reported_and_tried_again(target: MlflowTarget) -> None:
    attempts = 0

    def connect() -> MlflowRuns:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            raise sqlite3.OperationalError("database is locked")
        return MlflowRuns(target)

    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    told = list(story(manifest(1), [won(spec(0))]))
    for seq, event in enumerate(told, start=1):
        lines.put(Fact(seq=seq, event=event).to_json().encode("utf-8"))
    lines.put(Farewell().to_json().encode("utf-8"))
    reports: list[FromProjector] = []
    pauses: list[float] = []
    serve(Projector(connect), lines, report=reports.append, sleep=pauses.append)

    assert [report.kind for report in reports] == ["trouble", "trouble", "trouble", "shown"]
    assert pauses == [1.0, 2.0, 5.0]
    assert Page(target).runs()[0].info.status == "FINISHED"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000/#/experiments/1/runs/r"),
        ("https://me:secret@host/mlflow/", "https://host/mlflow/#/experiments/1/runs/r"),
        ("sqlite:////x/mlflow.db", "sqlite:////x/mlflow.db (run r)"),
    ],
)
def test_the_place_of_a_run_is_a_link_without_credentials(uri: str, shown: str) -> None:
    assert place(uri, experiment_id="1", run_id="r") == shown


def test_more_points_than_one_call_takes_are_all_drawn(target: MlflowTarget) -> None:
    episodes = manifest(300)
    show(target, list(story(episodes, [won(each) for each in episodes.episodes])))

    page = Page(target)
    assert len(page.history("episodes/turns")) == 300
    assert len(page.history("episodes/tokens_total")) == 300
