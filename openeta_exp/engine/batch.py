"""Many episodes at once: each outcome on disk the moment it ends, none of them run twice."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import anyio

from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.event import BatchEnded, BatchStarted, EpisodeEnded, EpisodeStarted, Event
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.engine.calls import CountCalls, no_calls
from openeta_exp.engine.dispatch import Dispatch
from openeta_exp.engine.progress import Progress
from openeta_exp.errors import StoreError
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.store import Journal
from openeta_exp.ports.tracker import Tracker

RunEpisode = Callable[[EpisodeSpec], Awaitable[EpisodeOutcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """Who is told what happens: first the journal, then everybody else.

    Attributes:
        calls: Counts the model calls of a batch.
    """

    journal: Journal
    tracker: Tracker
    progress: Progress
    clock: Clock
    calls: CountCalls = no_calls
    listeners: tuple[Callable[[Event], None], ...] = ()
    """Told last, in order; they neither wait nor raise."""

    def tell(self, event: Event) -> None:
        """Raises: StoreError: The fact could not be kept; nobody else has heard of it."""
        sequence = self.journal.append(event)
        self.tracker.publish([(sequence, event)])
        for listener in self.listeners:
            listener(event)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """What became of a batch.

    Attributes:
        outcomes: One per spec of the manifest, in its order. A verdict from before outlasts an
            attempt that broke.
        broke: Attempts of this run that ended without a verdict, in the manifest's order.
        reused: How many were finished before and were not run again.
    """

    started: BatchStarted
    outcomes: tuple[EpisodeOutcome, ...]
    broke: tuple[EpisodeFailure, ...]
    reused: int
    duration_s: float
    provider: ProviderMetrics | None


async def run_batch(
    started: BatchStarted,
    *,
    run_episode: RunEpisode,
    observers: Observers,
    fresh: bool = False,
) -> BatchRun:
    """Run every episode of the manifest that has no verdict under this arm yet.

    Args:
        fresh: Run finished episodes again; their new verdicts take the place of the old ones,
            which stand where the new attempt breaks.

    Raises:
        StoreError: An outcome could not be kept. Running episodes are closed first.
    """
    clock, calls = observers.clock, observers.calls()
    begun_s = clock.monotonic_s()
    before = _finished(started, observers.journal)
    done = {} if fresh else before
    observers.tell(started)
    observers.progress.batch_started(started, already_done=len(done), calls=calls.metrics)
    ended: dict[str, EpisodeOutcome] = dict(done)
    todo = [spec for spec in started.manifest.episodes if spec.episode_id not in done]
    completed = False
    try:
        with calls.inside():
            await _work(todo, started, run_episode=run_episode, observers=observers, ended=ended)
        completed = True
    finally:
        over = ended_batch(
            started,
            begun_s=begun_s,
            clock=clock,
            interrupted=not completed,
            provider=calls.metrics(),
        )
        # An interrupted batch keeps the reason it was interrupted for, even on a full disk.
        with contextlib.nullcontext() if completed else contextlib.suppress(StoreError):
            observers.tell(over)
        observers.progress.batch_ended(interrupted=not completed)
    last = [ended[spec.episode_id] for spec in started.manifest.episodes]
    broke = tuple(outcome for outcome in last if isinstance(outcome, EpisodeFailure))
    return BatchRun(
        started=started,
        outcomes=tuple(
            before.get(each.episode_id, each) if isinstance(each, EpisodeFailure) else each
            for each in last
        ),
        broke=broke,
        reused=len(done),
        duration_s=over.duration_s,
        provider=over.provider,
    )


def ended_batch(
    started: BatchStarted,
    *,
    begun_s: float,
    clock: Clock,
    interrupted: bool,
    provider: ProviderMetrics | None,
) -> BatchEnded:
    """The last fact of a batch. Times are read from `clock` now.

    Args:
        provider: Its own model calls.
    """
    return BatchEnded(
        batch_id=started.batch_id,
        duration_s=clock.monotonic_s() - begun_s,
        interrupted=interrupted,
        provider=provider,
        at_s=clock.unix_s(),
    )


def _finished(started: BatchStarted, journal: Journal) -> dict[str, EpisodeOutcome]:
    """Verdicts that exist already, under the ids this manifest gives their episodes."""
    known: Mapping[tuple[Digest, int], EpisodeOutcome] = journal.outcomes(
        started.arm.content_digest
    )
    found: dict[str, EpisodeOutcome] = {}
    for spec in started.manifest.episodes:
        outcome = known.get((spec.content_digest, spec.repeat))
        if outcome is not None:
            found[spec.episode_id] = outcome.model_copy(update={"episode_id": spec.episode_id})
    return found


async def _work(
    todo: list[EpisodeSpec],
    started: BatchStarted,
    *,
    run_episode: RunEpisode,
    observers: Observers,
    ended: dict[str, EpisodeOutcome],
) -> None:
    dispatch = Dispatch(todo)

    async def worker() -> None:
        last_env_id: str | None = None
        while (spec := dispatch.next(last_env_id)) is not None:
            last_env_id = spec.env_id
            ended[spec.episode_id] = await run_attempt(
                spec, batch_id=started.batch_id, run_episode=run_episode, observers=observers
            )

    async with anyio.create_task_group() as group:
        for _ in range(min(started.concurrency, len(todo))):
            group.start_soon(worker)


async def run_attempt(
    spec: EpisodeSpec,
    *,
    batch_id: str,
    run_episode: RunEpisode,
    observers: Observers,
    tell: Callable[[Event], None] | None = None,
) -> EpisodeOutcome:
    """Run an episode once; its beginning and its outcome are facts the moment they are there.

    Args:
        tell: Who keeps the facts, if not the observers alone.

    Raises:
        StoreError: One of them could not be kept.
    """
    clock, progress, tell = observers.clock, observers.progress, tell or observers.tell
    tell(EpisodeStarted(batch_id=batch_id, episode_id=spec.episode_id, at_s=clock.unix_s()))
    progress.episode_started(spec)
    outcome = await run_episode(spec)
    tell(EpisodeEnded(batch_id=batch_id, outcome=outcome, at_s=clock.unix_s()))
    progress.episode_ended(outcome)
    return outcome
