from __future__ import annotations

from openeta_exp.domain.event import EpisodeStarted, Event
from openeta_exp.domain.history import BatchHistory, History
from tests.batches import AT_S, arm, batch_ended, broke, ended, lost, manifest, spec, started, won


def history_of(*events: Event) -> tuple[BatchHistory, ...]:
    history = History()
    for event in events:
        history.add(event)
    return history.batches


def begun(index: int, *, batch_id: str = "exp-g000-train") -> EpisodeStarted:
    return EpisodeStarted(batch_id=batch_id, episode_id=f"episode-{index}", at_s=AT_S)


def test_a_resumed_batch_is_one_batch_over_two_runs() -> None:
    (batch,) = history_of(
        started(manifest(3)),
        begun(0),
        ended(won(spec(0))),
        batch_ended(interrupted=True),
        started(manifest(3)),
        begun(1),
        ended(lost(spec(1))),
        batch_ended(),
    )

    assert batch.runs == 2
    assert batch.duration_s == 24.0
    assert batch.ended is not None
    assert not batch.ended.interrupted
    assert list(batch.outcomes.values()) == [won(spec(0)), lost(spec(1))]


def test_a_killed_batch_has_no_end_and_knows_what_was_running() -> None:
    (batch,) = history_of(started(manifest(3)), begun(0), begun(1), ended(won(spec(1))))

    assert batch.ended is None
    assert list(batch.running) == ["episode-0"]


def test_starting_again_forgets_what_was_running_when_it_was_killed() -> None:
    (batch,) = history_of(started(manifest(3)), begun(0), started(manifest(3)))

    assert not batch.running


def test_a_batch_begins_with_the_verdicts_its_arm_already_has() -> None:
    _, second, other = history_of(
        started(manifest(2), batch_id="first"),
        ended(won(spec(0)), batch_id="first"),
        ended(broke(spec(1)), batch_id="first"),
        started(manifest(3), batch_id="second"),
        started(manifest(3), batch_id="other arm", of=arm(tree="b")),
    )

    assert list(second.outcomes.values()) == [won(spec(0))]
    assert second.reused == 1
    assert not other.outcomes


def test_the_same_batch_under_another_arm_is_another_one() -> None:
    first, second = history_of(
        started(manifest(2)),
        ended(won(spec(0))),
        batch_ended(),
        started(manifest(2), of=arm(tree="b")),
        ended(lost(spec(0), under=arm(tree="b"))),
    )

    assert list(first.outcomes.values()) == [won(spec(0))]
    assert list(second.outcomes.values()) == [lost(spec(0), under=arm(tree="b"))]
    assert first.ended is not None
    assert second.ended is None


def test_a_verdict_of_a_later_batch_does_not_change_an_earlier_one() -> None:
    first, second = history_of(
        started(manifest(1), batch_id="first"),
        ended(won(spec(0)), batch_id="first"),
        started(manifest(1), batch_id="second"),
        ended(lost(spec(0), attempt=1), batch_id="second"),
    )

    assert list(first.outcomes.values()) == [won(spec(0))]
    assert list(second.outcomes.values()) == [lost(spec(0), attempt=1)]


def test_a_breakage_gives_way_to_a_verdict_and_not_the_other_way_round() -> None:
    (batch,) = history_of(
        started(manifest(2)),
        ended(broke(spec(0))),
        ended(won(spec(0), attempt=1)),
        ended(won(spec(1))),
        ended(broke(spec(1), attempt=1)),
    )

    assert list(batch.outcomes.values()) == [won(spec(0), attempt=1), won(spec(1))]


def test_facts_of_a_batch_that_was_never_announced_belong_to_none() -> None:
    assert History().add(ended(won(spec(0)))) is None
