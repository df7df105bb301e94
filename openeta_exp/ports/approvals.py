"""The inbox in which calls wait for a person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from openeta_exp.domain.approval import ApprovalAnswer, ApprovalRequest


class ApprovalInbox(Protocol):
    """Requests and answers of one experiment. Used by several processes at once."""

    def ask(self, request: ApprovalRequest) -> None:
        """Put a request before people, whole or not at all.

        Raises:
            StoreError: It could not be written.
        """
        ...

    def pending(self) -> Iterable[ApprovalRequest]:
        """Requests without an answer, oldest first."""
        ...

    def answer(self, answer: ApprovalAnswer) -> ApprovalAnswer:
        """Answer a request, unless it was answered; return the answer that counts.

        Raises:
            StoreError: It could not be written.
        """
        ...

    def answer_to(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """The answer to exactly this request, if there is one.

        Raises:
            StoreError: It cannot be read.
        """
        ...

    def withdraw(self, request: ApprovalRequest) -> None:
        """Take an answered request out of the inbox; its answer is kept."""
        ...
