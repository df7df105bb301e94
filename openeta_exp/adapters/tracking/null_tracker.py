"""No tracking: the journal alone. `command=track` can show it later."""

from __future__ import annotations

from collections.abc import Iterable

from openeta_exp.domain.event import Event


class NullTracker:
    """Shows nothing."""

    def publish(self, events: Iterable[tuple[int, Event]]) -> None:
        """Not even read: a journal may be long."""

    def close(self, *, timeout_s: float) -> str | None:
        return None

    @property
    def compare_link(self) -> str | None:
        return None
