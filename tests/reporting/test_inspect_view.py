from __future__ import annotations

import io
from pathlib import Path

import pytest

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.event import EpisodeStarted, Event
from openeta_exp.domain.stop import FailureClass
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.inspect_view import BatchState, Inspection, inspect, inspect_view
from tests.batches import AT_S, arm, broke, ended, lost, manifest, spec, started, story, won


def inspection_of(*events: Event) -> Inspection:
    journal = MemoryJournal()
    for event in events:
        journal.append(event)
    return inspect(journal, source="journal.sqlite")


def shown(inspection: Inspection) -> str:
    out = io.StringIO()
    Console(out=out, err=out).show(inspect_view(inspection))
    return out.getvalue()


def test_a_journal_shows_its_batches_with_everything_that_ended() -> None:
    inspection = inspection_of(*story(manifest(3), [won(spec(0)), lost(spec(1)), broke(spec(2))]))

    (batch,) = inspection.batches
    assert batch.state is BatchState.FINISHED
    assert batch.summary.tally.failures == {FailureClass.BUDGET: 1, FailureClass.PROVIDER: 1}
    text = shown(inspection)
    assert "broken (provider: provider_unavailable)" in text
    assert "not solved (budget: max_turns)" in text
    assert "40 model calls" in text


def test_a_killed_batch_shows_what_was_running_and_what_never_began() -> None:
    inspection = inspection_of(
        started(manifest(3)),
        ended(won(spec(0))),
        EpisodeStarted(batch_id="exp-g000-train", episode_id="episode-1", at_s=AT_S),
    )

    (batch,) = inspection.batches
    assert batch.state is BatchState.OPEN
    assert batch.running_episode_ids == ("episode-1",)
    assert batch.unfinished_episode_ids == ("episode-1", "episode-2")
    text = shown(inspection)
    assert "begun and not ended: episode-1" in text
    assert "without an outcome: episode-1, episode-2" in text


def test_arms_are_told_apart_by_digest() -> None:
    inspection = inspection_of(
        started(manifest(1), of=arm("baseline"), batch_id="canary-baseline"),
        started(manifest(1), of=arm("candidate", tree="b"), batch_id="canary-candidate"),
    )

    assert len({batch.arm_digest for batch in inspection.batches}) == 2
    assert f"candidate {arm(tree='b').content_digest[:8]}" in shown(inspection)


def test_a_long_batch_shows_what_went_wrong_first() -> None:
    outcomes = [(lost if index == 199 else won)(spec(index)) for index in range(200)]
    text = shown(inspection_of(*story(manifest(200), outcomes)))

    assert "episode-199" in text
    assert "150 more episodes" in text


def test_an_empty_journal_is_no_error() -> None:
    assert "no batch has begun" in shown(inspection_of())


def test_the_json_form_is_read_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    writer = SqliteJournal(path)
    for event in story(manifest(2), [won(spec(0)), broke(spec(1))]):
        writer.append(event)
    # The writer still holds the journal: inspecting is allowed at any time.
    reader = SqliteJournal(path, read_only=True)
    inspection = inspect(reader, source=str(path))
    reader.close()
    writer.close()

    assert Inspection.from_json(inspection.to_json()) == inspection
    assert inspection.event_count == 6


@pytest.mark.parametrize("count", [0, 1])
def test_an_unfinished_batch_has_no_rate_over_results(count: int) -> None:
    inspection = inspection_of(started(manifest(2)), *[ended(broke(spec(0)))] * count)

    assert inspection.batches[0].summary.success_over_results.value is None
