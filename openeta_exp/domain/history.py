"""What a journal's facts add up to, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import (
    AuthorAnswered,
    BatchEnded,
    BatchStarted,
    CandidateProposed,
    CandidateReviewed,
    ComparisonEnded,
    ComparisonPlanned,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    GenerationEnded,
    GenerationStarted,
    Promoted,
    Published,
)
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.model import ProviderMetrics


@dataclass(slots=True, kw_only=True)
class BatchHistory:
    """One batch under one arm, over all its runs: the same command again continues it.

    Attributes:
        started: As the latest run announced it.
        first_started_s: Unix time of the first run. With id and arm it names the batch, also
            where several journals are shown together.
        outcomes: By episode digest; verdicts of earlier batches that are reused come first.
        runs_of: The run each outcome is of, from 1; not for what is reused.
        reused: How many of those there were when the batch first began.
        running: Episodes that have begun and not ended, with their Unix time of beginning.
        ended: The end of the latest run; None while it runs, or if it was killed.
        runs: How often the batch was started.
        ends: By run, of those that reached their end.
        duration_s: Wall clock of all runs that reached their end.
        provider: Model calls of these runs; None if none of them counted any. What an episode
            took that went on after an answer is in its usage alone.
    """

    started: BatchStarted
    first_started_s: float
    outcomes: dict[Digest, EpisodeOutcome] = field(default_factory=dict)
    runs_of: dict[Digest, int] = field(default_factory=dict)
    reused: int = 0
    running: dict[str, float] = field(default_factory=dict)
    ended: BatchEnded | None = None
    runs: int = 0
    ends: dict[int, BatchEnded] = field(default_factory=dict)
    duration_s: float = 0.0
    provider: ProviderMetrics | None = None

    def ends_that_count(self) -> tuple[BatchEnded, ...]:
        """Of the latest run, and of those that an outcome of its manifest is of.

        A run whose outcomes were all replaced, because they were run afresh or with other limits,
        took nothing for what is known now.
        """
        counting = {self.runs} | {
            self.runs_of[spec.content_digest]
            for spec in self.started.manifest.episodes
            if spec.content_digest in self.runs_of
        }
        return tuple(end for run, end in self.ends.items() if run in counting)


class History:
    """Facts in the order of the journal -> batches in the order in which they began."""

    def __init__(self) -> None:
        self._batches: dict[tuple[str, Digest], BatchHistory] = {}
        self._current: dict[str, BatchHistory] = {}
        self._verdicts: dict[Digest, dict[Digest, EpisodeResult]] = {}

    @property
    def batches(self) -> tuple[BatchHistory, ...]:
        return tuple(self._batches.values())

    def add(self, event: Event) -> BatchHistory | None:
        """Take one fact; return the batch it belongs to, or None if that was never announced."""
        match event:
            case BatchStarted():
                return self._start(event)
            case EpisodeStarted() | EpisodeEnded() | BatchEnded():
                batch = self._current.get(event.batch_id)
                if batch is not None:
                    self._go_on(batch, event)
                return batch
            case (
                GenerationStarted()
                | AuthorAnswered()
                | CandidateProposed()
                | CandidateReviewed()
                | ComparisonPlanned()
                | ComparisonEnded()
                | Promoted()
                | Published()
                | GenerationEnded()
            ):
                return None
            case _:
                assert_never(event)

    def _start(self, event: BatchStarted) -> BatchHistory:
        arm = event.arm.content_digest
        batch = self._batches.get((event.batch_id, arm))
        if batch is None:
            batch = BatchHistory(started=event, first_started_s=event.at_s)
            self._batches[event.batch_id, arm] = batch
        self._current[event.batch_id] = batch
        known = self._verdicts.get(arm, {})
        for spec in event.manifest.episodes:
            verdict = known.get(spec.content_digest)
            if verdict is not None:
                batch.outcomes.setdefault(verdict.spec_digest, verdict)
        if batch.runs == 0:
            batch.reused = len(batch.outcomes)
        batch.started = event
        batch.ended = None
        batch.runs += 1
        batch.running.clear()
        return batch

    def _go_on(
        self, batch: BatchHistory, event: EpisodeStarted | EpisodeEnded | BatchEnded
    ) -> None:
        match event:
            case EpisodeStarted(episode_id=episode_id, at_s=at_s):
                batch.running[episode_id] = at_s
            case EpisodeEnded(outcome=outcome):
                batch.running.pop(outcome.episode_id, None)
                self._keep(batch, outcome)
            case BatchEnded():
                batch.ended = batch.ends[batch.runs] = event
                batch.duration_s += event.duration_s
                if event.provider is not None:
                    before = batch.provider
                    batch.provider = event.provider if before is None else before + event.provider
            case _:
                assert_never(event)

    def _keep(self, batch: BatchHistory, outcome: EpisodeOutcome) -> None:
        # A verdict outlasts a later breakage.
        if isinstance(outcome, EpisodeFailure) and isinstance(
            batch.outcomes.get(outcome.spec_digest), EpisodeResult
        ):
            return
        batch.outcomes[outcome.spec_digest] = outcome
        batch.runs_of[outcome.spec_digest] = batch.runs
        if isinstance(outcome, EpisodeResult):
            verdicts = self._verdicts.setdefault(outcome.arm_digest, {})
            verdicts[outcome.spec_digest] = outcome
