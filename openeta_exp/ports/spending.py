"""The account of what model calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from openeta_exp.domain.money import Charge, Spent, Tokens


class SpendingLedger(Protocol):
    """Every attempt at a model call, on disk before it is sent, kept with the journal.

    What was put down and never settled counts in full: a process that was killed, or an answer
    that did not come, may have been charged all the same.
    """

    def put_down(self, charge: Charge) -> int:
        """Keep the most an attempt can cost, and return its number.

        Raises:
            StoreError: It could not be written; the attempt must not be made.
        """
        ...

    def settle(self, number: int, tokens: Tokens) -> None:
        """Keep what the attempt did cost; nothing if it was not charged.

        Raises:
            StoreError: It could not be written.
        """
        ...

    def spent(self) -> Sequence[Spent]:
        """Everything so far, by generation, role and whether it is settled."""
        ...
