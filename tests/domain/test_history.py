from __future__ import annotations

from openeta_exp.domain.event import EpisodeStarted, Event
from openeta_exp.domain.history import BatchHistory, History
from tests.batches import AT_S, arm, batch_ended, broke, ended, lost, manifest, spec, started, won


def history_of(*events: Event) -> dict[str, BatchHistory]:
    history = History()
    for event in events:
        history.add(event)
    return history.batches


def begun(index: int, *, batch_id: str = "exp-g000-train") -> EpisodeStarted:
    return EpisodeStarted(batch_id=batch_id, episode_id=f"episode-{index}", at_s=AT_S)


def test_a_resumed_batch_is_one_batch_over_two_runs() -> None:
    batches = history_of(
        started(manifest(3)),
        begun(0),
        ended(won(spec(0))),
        batch_ended(interrupted=True),
        started(manifest(3)),
        begun(1),
        ended(lost(spec(1))),
        batch_ended(),
    )

    (batch,) = batches.values()
    assert batch.runs == 2
    assert batch.duration_s == 24.0
    assert batch.ended is not None
    assert not batch.ended.interrupted
    assert list(batch.outcomes.values()) == [won(spec(0)), lost(spec(1))]


def test_a_killed_batch_has_no_end_and_knows_what_was_running() -> None:
    (batch,) = history_of(started(manifest(3)), begun(0), begun(1), ended(won(spec(1)))).values()

    assert batch.ended is None
    assert list(batch.running) == ["episode-0"]


def test_starting_again_forgets_what_was_running_when_it_was_killed() -> None:
    (batch,) = history_of(started(manifest(3)), begun(0), started(manifest(3))).values()

    assert not batch.running


def test_a_batch_begins_with_the_verdicts_its_arm_already_has() -> None:
    batches = history_of(
        started(manifest(2), batch_id="first"),
        ended(won(spec(0)), batch_id="first"),
        ended(broke(spec(1)), batch_id="first"),
        started(manifest(3), batch_id="second"),
        started(manifest(3), batch_id="other arm", of=arm(tree="b")),
    )

    assert list(batches["second"].outcomes.values()) == [won(spec(0))]
    assert batches["second"].ended_here == 0
    assert not batches["other arm"].outcomes


def test_a_verdict_of_a_later_batch_does_not_change_an_earlier_one() -> None:
    batches = history_of(
        started(manifest(1), batch_id="first"),
        ended(won(spec(0)), batch_id="first"),
        started(manifest(1), batch_id="second"),
        ended(lost(spec(0), attempt=1), batch_id="second"),
    )

    assert list(batches["first"].outcomes.values()) == [won(spec(0))]
    assert list(batches["second"].outcomes.values()) == [lost(spec(0), attempt=1)]


def test_a_breakage_gives_way_to_a_verdict_and_not_the_other_way_round() -> None:
    (batch,) = history_of(
        started(manifest(2)),
        ended(broke(spec(0))),
        ended(won(spec(0), attempt=1)),
        ended(won(spec(1))),
        ended(broke(spec(1), attempt=1)),
    ).values()

    assert list(batch.outcomes.values()) == [won(spec(0), attempt=1), won(spec(1))]
    assert batch.ended_here == 4


def test_facts_of_a_batch_that_was_never_announced_belong_to_none() -> None:
    assert History().add(ended(won(spec(0)))) is None
