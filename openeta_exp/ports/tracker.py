"""Where people look: a projection of the journal, never its source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from openeta_exp.domain.event import Event


class Tracker(Protocol):
    """Shows a journal's facts. A slow or dead tracker never slows or fails a run."""

    def publish(self, events: Iterable[tuple[int, Event]]) -> None:
        """Take facts in order. Returns at once; a fact that was already shown is not shown twice.

        Never raises for a tracking server that does not answer: the journal can be projected
        again later.
        """
        ...

    def close(self, *, timeout_s: float) -> str | None:
        """Wait for what was published, at most `timeout_s`; return a link to look at, if any."""
        ...

    @property
    def compare_link(self) -> str | None:
        """After `close`: a page with the generations of a lineage side by side.

        From `#` on if no server is known that shows it; None if there is nothing to compare.
        """
        ...
