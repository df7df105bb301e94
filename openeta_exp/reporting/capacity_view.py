"""How `command=capacity` goes: which environments opened, were reset and closed, and how fast."""

from __future__ import annotations

from collections.abc import Callable

from openeta_exp.domain.episode import CleanupStatus, EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.domain.stop import StopReason


class CapacityProgress:
    """See `engine.progress.Progress`. A line for each environment; nothing is won or lost here."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """
        Args:
            note: Prints a line.
        """
        self._note = note
        self._total = 0
        self._ended = 0

    def batch_started(
        self,
        started: BatchStarted,
        *,
        already_done: int,
        episodes: int | None = None,
        calls: Callable[[], ProviderMetrics | None] = lambda: None,
    ) -> None:
        del already_done, episodes, calls
        self._total = len(started.manifest.episodes)
        self._note(f"environments to open: {self._total}, {started.concurrency} at once")

    def episode_started(self, spec: EpisodeSpec) -> None:
        del spec

    def episode_ended(self, outcome: EpisodeOutcome) -> None:
        self._ended += 1
        self._note(f"[{self._ended}/{self._total}] {environment_line(outcome)}")

    def batch_ended(self, *, interrupted: bool) -> None:
        if interrupted:
            self._note("interrupted; environments are closed")


def has_worked(outcome: EpisodeOutcome) -> bool:
    """Whether the environment was opened, reset and closed, in its time."""
    return (
        isinstance(outcome, EpisodeResult)
        and outcome.stop_reason is not StopReason.EPISODE_TIMEOUT
        and outcome.cleanup.status is CleanupStatus.CLOSED
    )


def environment_line(outcome: EpisodeOutcome) -> str:
    """What became of one environment: how long it took, or what broke."""
    seconds = f"{outcome.usage.duration_s:.1f} s"
    if has_worked(outcome):
        return f"{outcome.episode_id}: opened, reset and closed in {seconds}"
    told = [_broken(outcome)]
    if outcome.cleanup.status is CleanupStatus.FAILED:
        told.append(f"could not be closed: {outcome.cleanup.message or 'no reason was given'}")
    return f"{outcome.episode_id}: {'; '.join(filter(None, told))} (after {seconds})"


def _broken(outcome: EpisodeOutcome) -> str:
    was_open = outcome.cleanup.status is not CleanupStatus.NOT_OPENED
    match outcome:
        case EpisodeFailure(code=code, message=message):
            return f"{'broke once open' if was_open else 'could not be opened'}: {code}: {message}"
        case EpisodeResult(stop_reason=StopReason.EPISODE_TIMEOUT, limit=limit):
            late = "reset" if was_open else "opened"
            return f"was not {late} within its timeout_s = {limit:g}"
        case _:
            return ""
