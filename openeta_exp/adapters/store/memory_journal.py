"""A journal that forgets: for checks that must not touch the disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import EpisodeEnded, Event
from openeta_exp.domain.identity import Digest


class MemoryJournal:
    """Keeps facts as long as the process lives."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def append(self, event: Event) -> int:
        self._events.append(event)
        return len(self._events)

    def events(self, *, after: int = 0) -> Iterator[tuple[int, Event]]:
        yield from enumerate(self._events[max(after, 0) :], start=max(after, 0) + 1)

    def outcomes(self, arm: Digest) -> Mapping[tuple[Digest, int], EpisodeOutcome]:
        return {
            (outcome.spec_digest, outcome.repeat): outcome
            for event in self._events
            if isinstance(event, EpisodeEnded)
            and isinstance(outcome := event.outcome, EpisodeResult)
            and outcome.arm_digest == arm
        }

    def attempts(self, batch_id: str) -> Mapping[tuple[Digest, int], Sequence[EpisodeOutcome]]:
        found: dict[tuple[Digest, int], list[EpisodeOutcome]] = {}
        for event in self._events:
            if isinstance(event, EpisodeEnded) and event.batch_id == batch_id:
                key = event.outcome.spec_digest, event.outcome.repeat
                found.setdefault(key, []).append(event.outcome)
        return found

    def close(self) -> None:
        """Nothing to give back."""
