"""What a conversation keeps of past turns: bounded, oldest first out, never the pixels."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from openeta_exp.domain.counting import counted
from openeta_exp.domain.model import ModelMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimits:
    """How much of the past is sent again with every request."""

    max_turns: int = 40
    max_characters: int = 80_000


class History:
    """Pairs of what a turn learned and what was decided.

    A turn that no longer fits is dropped whole and counted, so that the context stays bounded and
    the model is told that something is missing.
    """

    def __init__(self, limits: HistoryLimits) -> None:
        self._limits = limits
        self._turns: deque[tuple[ModelMessage, ModelMessage]] = deque()
        self._characters = 0
        self._dropped = 0

    def add(self, learned: str, decided: str) -> None:
        self._turns.append(
            (ModelMessage(role="user", text=learned), ModelMessage(role="assistant", text=decided))
        )
        self._characters += len(learned) + len(decided)
        while self._turns and (
            len(self._turns) > self._limits.max_turns
            or self._characters > self._limits.max_characters
        ):
            old = self._turns.popleft()
            self._characters -= sum(len(message.text) for message in old)
            self._dropped += 1

    def messages(self) -> tuple[ModelMessage, ...]:
        kept = tuple(message for turn in self._turns for message in turn)
        if not self._dropped:
            return kept
        note = (
            f"[{counted(self._dropped, 'earlier turn is', plural='earlier turns are')} not shown]"
        )
        return (ModelMessage(role="user", text=note), *kept)
