"""What happens when a planner asks a question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.observation import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A planner's question with what is needed to answer it.

    Attributes:
        asked: Every question of this episode so far, this one excluded.
        answered: Guidance answers given so far.
    """

    task: str
    session_id: str
    text: str
    observation: Observation
    host_state: JsonObject
    asked: tuple[str, ...]
    answered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """An answer, or none: then a person is needed.

    Attributes:
        reason: Why there is no answer (abstained, repeated, budget used up, failed).
    """

    answer: str | None
    reason: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)


class Guidance(Protocol):
    """Answers questions in a person's place. Shared by all episodes."""

    async def resolve(self, question: Question) -> Resolution:
        """Never raises for a guidance agent that fails: that is no answer.

        Raises:
            ProviderQueueTimeout: The request could not even be queued.
        """
        ...


class NobodyAnswers:
    """Profiles without a guidance agent."""

    async def resolve(self, question: Question) -> Resolution:
        del question
        return Resolution(answer=None, reason="this profile has no guidance agent")
