"""The journal: the truth about what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import Event
from openeta_exp.domain.identity import Digest


class Journal(Protocol):
    """Append-only facts of one experiment, on disk before they are shown or tracked.

    One writing process at a time: opening a journal that another process holds is an error.
    """

    def append(self, event: Event) -> int:
        """Write one fact and return its sequence number, counted from 1 without gaps.

        Raises:
            StoreError: It could not be written; the caller must stop, not go on untold.
        """
        ...

    def events(self, *, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Facts with a sequence number above `after`, oldest first."""
        ...

    def outcomes(self, arm: Digest) -> Mapping[tuple[Digest, int], EpisodeOutcome]:
        """Last verdict under an arm by (episode digest, repeat index).

        Only results count: an infrastructure failure is run again by the same command.
        """
        ...

    def attempts(self, batch_id: str) -> Mapping[tuple[Digest, int], Sequence[EpisodeOutcome]]:
        """Everything that has ended in a batch, broken or not, by (episode digest, repeat index).

        Oldest first.
        """
        ...

    def close(self) -> None: ...
