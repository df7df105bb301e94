"""The projector against a real MLflow store."""

from __future__ import annotations

import json
import queue
import sqlite3
from collections.abc import Mapping, Sequence

import pytest
from mlflow.tracking import MlflowClient

from openeta_exp.adapters.tracking.messages import Fact, Farewell, FromProjector, MlflowTarget
from openeta_exp.adapters.tracking.mlflow_runs import MLFLOW_ERRORS, MlflowRuns, place
from openeta_exp.adapters.tracking.projector import Projector, serve
from openeta_exp.domain.event import EpisodeEnded, Event
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
from tests.pauses import paused, went_on


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


def test_an_answer_after_the_end_of_a_batch_is_shown_as_if_it_had_come_before(
    target: MlflowTarget,
) -> None:
    asked, other = paused(), won(spec(1))
    solved = went_on(won(asked.spec, attempt=1), tokens=1_700)
    before = list(story(manifest(2), [asked.outcome, other]))
    answered = EpisodeEnded(batch_id=started(manifest(2)).batch_id, outcome=solved, at_s=AT_S + 900)
    show(target, before)

    show(target, [*before, answered])

    page = Page(target)
    (run,) = page.runs()
    shown = run.data.metrics
    assert run.info.run_name == "g0 train 2/2"
    assert "2 of 2 episodes solved" in run.data.tags["mlflow.note.content"]
    assert (shown["summary/successes"], shown["summary/need_human"]) == (2, 0)
    assert shown["summary/assisted_successes"] == 1
    assert shown["summary/success_rate"] == shown["episodes/success_rate"] == 1
    assert shown["summary/tokens_total"] == shown["episodes/tokens_total"] == 11_200
    assert json.loads(page.text("result.json"))["human_assisted_success_count"] == 1
    assert [row[1] for row in json.loads(page.text("outcomes.json"))["data"]] == ["success"] * 2
    # It ended when it ended; when somebody answered is no part of how long it took.
    assert (run.info.status, run.info.end_time) == ("FINISHED", int((AT_S + 12) * 1000))


def test_a_summary_that_an_older_version_left_behind_is_corrected(target: MlflowTarget) -> None:
    asked = paused()
    facts: list[Event] = list(story(manifest(1), [asked.outcome]))
    show(target, facts)
    (run,) = Page(target).runs()
    client = MlflowClient(tracking_uri=target.uri)
    client.delete_tag(run.info.run_id, "openeta.summary_seq")
    client.set_tag(run.info.run_id, "openeta.journal_seq", str(len(facts) + 1))

    show(target, [*facts, ended(won(asked.spec, attempt=1))])

    assert Page(target).runs()[0].data.metrics["summary/success_rate"] == 1


def test_an_answer_counts_although_the_clock_was_set_back(target: MlflowTarget) -> None:
    asked = paused()
    facts = list(story(manifest(1), [asked.outcome]))
    again = ended(paused(attempt=1).outcome).model_copy(update={"at_s": AT_S - 7_200})
    solved = ended(won(asked.spec, attempt=2)).model_copy(update={"at_s": AT_S - 3_600})

    show(target, [*facts, again])
    show(target, [*facts, again, solved])

    shown = Page(target).runs()[0].data.metrics
    assert (shown["summary/successes"], shown["summary/need_human"]) == (1, 0)


def test_a_failure_that_was_made_up_for_is_counted_no_longer(target: MlflowTarget) -> None:
    facts = list(story(manifest(1), [broke(spec(0))]))
    again = list(story(manifest(1), [won(spec(0), attempt=1)]))
    show(target, facts)
    assert Page(target).runs()[0].data.metrics["summary/fails_provider"] == 1

    show(target, [*facts, *again])

    shown = Page(target).runs()[0].data.metrics
    assert (shown["summary/fails_provider"], shown["summary/fails"]) == (0, 0)


def test_a_batch_that_was_killed_is_summed_up_when_nothing_more_will_come(
    target: MlflowTarget,
) -> None:
    facts = list(story(manifest(2), [won(spec(0)), broke(spec(1))]))
    show(target, facts)
    projector = show(target, [*facts, started(manifest(2)), ended(won(spec(1), attempt=1))])
    assert Page(target).runs()[0].data.metrics["summary/success_rate"] == 0.5

    projector.flush(last=True)

    (run,) = Page(target).runs()
    assert run.data.metrics["summary/success_rate"] == 1
    assert run.info.run_name == "g0 train 2/2"
    assert "Running, or killed" in run.data.tags["mlflow.note.content"]
    assert run.info.status == "RUNNING"
    assert projector.flush(last=True) is None


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
