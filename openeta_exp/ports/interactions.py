"""Episodes that wait for a person, on disk until their outcome is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from openeta_exp.domain.guidance import AnsweredQuestion
from openeta_exp.domain.pause import PausedEpisode


class PausedEpisodes(Protocol):
    """The pending questions of one experiment, one per session.

    A record is either pending or claimed, never both: it is moved as one step, so that of two
    people who answer only one is heard.
    """

    def keep(self, paused: PausedEpisode) -> None:
        """Write a record, whole or not at all; the session's earlier one is replaced.

        Raises:
            StoreError: It could not be written.
        """
        ...

    def pending(self) -> Iterable[PausedEpisode]:
        """Records nobody has answered, oldest first."""
        ...

    def claimed(self) -> Iterable[PausedEpisode]:
        """Records that were answered and whose outcome is not in the journal yet."""
        ...

    def claim(self, paused: PausedEpisode, answer: AnsweredQuestion) -> PausedEpisode:
        """Take a pending record for oneself, with the answer in it.

        Raises:
            SettingsError: Somebody else was faster.
            StoreError: It could not be written.
        """
        ...

    def answer(self, paused: PausedEpisode, answer: AnsweredQuestion) -> PausedEpisode:
        """Write the answer into a record that is claimed already.

        Raises:
            StoreError: It could not be written.
        """
        ...

    def done(self, paused: PausedEpisode) -> None:
        """Delete a claimed record whose outcome is in the journal. May be called again.

        Raises:
            StoreError: It could not be deleted.
        """
        ...
