"""Who is told how a batch goes while it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ProviderMetrics


def none_counted() -> None:
    """Nobody counts model calls."""


class Progress(Protocol):
    """Called from the event loop, in order, after the journal has the fact. Never raises, never
    waits."""

    def batch_started(
        self,
        started: BatchStarted,
        *,
        already_done: int,
        episodes: int | None = None,
        calls: Callable[[], ProviderMetrics | None] = none_counted,
    ) -> None:
        """A batch begins; `already_done` of its episodes ended before and are not run again.

        Args:
            episodes: How many there are at most, if not one for each row of the manifest: both
                arms of a comparison are one batch to whoever looks on.
            calls: Its model calls so far, at any moment; None if they are not counted.
        """
        ...

    def episode_started(self, spec: EpisodeSpec) -> None: ...

    def episode_ended(self, outcome: EpisodeOutcome) -> None: ...

    def batch_ended(self, *, interrupted: bool) -> None: ...


class NoProgress:
    """Tells nobody."""

    def batch_started(
        self,
        started: BatchStarted,
        *,
        already_done: int,
        episodes: int | None = None,
        calls: Callable[[], ProviderMetrics | None] = none_counted,
    ) -> None: ...

    def episode_started(self, spec: EpisodeSpec) -> None: ...

    def episode_ended(self, outcome: EpisodeOutcome) -> None: ...

    def batch_ended(self, *, interrupted: bool) -> None: ...
