"""A planner's question, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.record import Record


class AnswerSource(StrEnum):
    """Who answered. A guidance agent is never passed off as a person."""

    GUIDANCE_AGENT = "guidance_agent"
    HUMAN = "human"


class AnsweredQuestion(Record):
    """One question with its answer, as the session keeps it."""

    interaction_id: str
    question: str
    answer: str
    source: AnswerSource
    at_s: float
    """Unix time of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A planner's question with what is needed to answer it.

    Attributes:
        asked: Every question of this episode so far, this one excluded.
        answered: Guidance answers given so far, over all restarts of the episode.
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
        requests: Model requests it took.
    """

    answer: str | None
    reason: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    requests: int = 0


def same_question(first: str, second: str) -> bool:
    """Whether two questions differ in nothing but case, white space and final punctuation."""
    return _normal(first) == _normal(second)


def _normal(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(" ?!.")
