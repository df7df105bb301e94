"""Where an experiment is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from openeta_exp.domain.event import Event
from openeta_exp.ports.tracker import Tracker
from openeta_exp.reporting.console import Console
from openeta_exp.settings.experiment import ExperimentSettings


class NullTracker:
    def publish(self, events: Iterable[tuple[int, Event]]) -> None: ...

    def close(self, *, timeout_s: float) -> str | None:
        return None


@contextmanager
def open_tracker(settings: ExperimentSettings, console: Console) -> Iterator[Tracker]:
    yield NullTracker()
