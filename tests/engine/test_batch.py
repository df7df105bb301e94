"""Many episodes at once: order, limits, isolation, and running again only what is missing."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import BatchEnded, Event
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.engine.batch import BatchRun, Observers, RunEpisode, run_batch
from openeta_exp.engine.dispatch import Dispatch
from openeta_exp.engine.progress import NoProgress
from openeta_exp.errors import StoreError
from openeta_exp.ports.store import Journal
from tests import batches

pytestmark = pytest.mark.anyio


def observers(journal: Journal) -> Observers:
    return Observers(
        journal=journal, tracker=NullTracker(), progress=NoProgress(), clock=SystemClock()
    )


async def run(
    count: int, run_episode: RunEpisode, *, journal: Journal | None = None, fresh: bool = False
) -> BatchRun:
    return await run_batch(
        batches.started(batches.manifest(count)),
        run_episode=run_episode,
        observers=observers(journal or MemoryJournal()),
        fresh=fresh,
    )


async def wins(spec: EpisodeSpec) -> EpisodeOutcome:
    return batches.won(spec)


async def test_outcomes_keep_manifest_order_when_episodes_finish_out_of_order() -> None:
    last_started = anyio.Event()

    async def last_first(spec: EpisodeSpec) -> EpisodeOutcome:
        if spec.episode_id == "episode-3":
            last_started.set()
        else:
            await last_started.wait()
        return batches.won(spec)

    with anyio.fail_after(5):
        batch = await run(4, last_first)

    assert [outcome.episode_id for outcome in batch.outcomes] == [
        f"episode-{index}" for index in range(4)
    ]


async def test_no_more_episodes_are_in_flight_than_the_batch_allows() -> None:
    running, most = 0, 0

    async def counting(spec: EpisodeSpec) -> EpisodeOutcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return batches.won(spec)

    await run(20, counting)

    assert most == batches.started(batches.manifest(1)).concurrency == 4


async def test_the_same_batch_again_runs_only_what_has_no_verdict(tmp_path: Path) -> None:
    asked: list[str] = []

    async def second_breaks(spec: EpisodeSpec) -> EpisodeOutcome:
        asked.append(spec.episode_id)
        return batches.broke(spec) if spec.episode_id == "episode-1" else batches.won(spec)

    async def all_win(spec: EpisodeSpec) -> EpisodeOutcome:
        asked.append(spec.episode_id)
        return batches.won(spec)

    journal = SqliteJournal(tmp_path / "journal.sqlite")
    first = await run(3, second_breaks, journal=journal)
    asked.clear()
    second = await run(3, all_win, journal=journal)
    third = await run(3, all_win, journal=journal)
    journal.close()

    assert isinstance(first.outcomes[1], EpisodeFailure)
    assert asked == ["episode-1"]
    assert (second.reused, third.reused) == (2, 3)
    assert [outcome.kind for outcome in third.outcomes] == ["result"] * 3


async def test_fresh_runs_finished_episodes_again() -> None:
    journal = MemoryJournal()
    await run(2, wins, journal=journal)

    again = await run(2, wins, journal=journal, fresh=True)

    assert again.reused == 0


async def test_a_verdict_stands_where_running_it_again_breaks() -> None:
    journal = MemoryJournal()
    first = await run(2, wins, journal=journal)

    async def second_breaks(spec: EpisodeSpec) -> EpisodeOutcome:
        return batches.broke(spec) if spec.episode_id == "episode-1" else batches.lost(spec)

    again = await run(2, second_breaks, journal=journal, fresh=True)
    after = await run(2, second_breaks, journal=journal)

    assert isinstance(again.outcomes[0], EpisodeResult)
    assert not again.outcomes[0].success, "the new verdict takes the place of the old one"
    assert again.outcomes[1] == first.outcomes[1]
    assert [outcome.episode_id for outcome in again.broke] == ["episode-1"]
    assert after.outcomes == again.outcomes
    assert (after.reused, after.broke) == (2, ())


async def test_a_bug_in_one_episode_stops_the_batch_and_keeps_what_was_finished() -> None:
    journal = MemoryJournal()

    async def third_has_a_bug(spec: EpisodeSpec) -> EpisodeOutcome:
        if spec.episode_id == "episode-2":
            raise ZeroDivisionError
        return batches.won(spec)

    with pytest.raises(BaseExceptionGroup):
        await run(3, third_has_a_bug, journal=journal)

    last = [event for _, event in journal.events()][-1]
    assert isinstance(last, BatchEnded)
    assert last.interrupted
    assert len(journal.outcomes(batches.arm().content_digest)) == 2


class _FillsUp(MemoryJournal):
    """A disk with room for so many facts."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def append(self, event: Event) -> int:
        if self._room == 0:
            raise StoreError("no space left on device")
        self._room -= 1
        return super().append(event)


async def test_a_full_disk_stops_the_batch_with_its_own_reason() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        await run(8, wins, journal=_FillsUp(room=6))

    assert caught.group_contains(StoreError, match="no space")


def test_a_worker_keeps_to_its_environment_while_episodes_of_it_are_left() -> None:
    dispatch = Dispatch(batches.spec(index) for index in range(9))

    first, second = dispatch.next(None), dispatch.next(None)
    assert first is not None
    assert second is not None
    assert first.env_id != second.env_id
    followed = [dispatch.next(first.env_id), dispatch.next(first.env_id)]

    assert [spec.env_id for spec in followed if spec is not None] == [first.env_id] * 2


def test_every_episode_is_handed_out_exactly_once() -> None:
    dispatch = Dispatch(batches.spec(index) for index in range(10))
    handed: list[str] = []
    last = None
    while (spec := dispatch.next(last)) is not None:
        last = spec.env_id
        handed.append(spec.episode_id)

    assert sorted(handed) == sorted(f"episode-{index}" for index in range(10))
