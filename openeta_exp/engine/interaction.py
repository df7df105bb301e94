"""When a question is put to a guidance agent, and when only a person will do."""

from __future__ import annotations

from openeta_exp.domain.guidance import Question, Resolution, same_question
from openeta_exp.ports.guidance import Guidance

MAX_ANSWERS = 3
"""Answers an episode may get from guidance, over all its restarts."""


class NobodyAnswers:
    """Profiles without a guidance agent."""

    async def resolve(self, question: Question) -> Resolution:
        del question
        return Resolution(answer=None, reason="this profile has no guidance agent")


class BoundedGuidance:
    """Keeps a guidance agent to its budget: a few answers, and none to a question asked before."""

    def __init__(self, agent: Guidance, *, max_answers: int = MAX_ANSWERS) -> None:
        self._agent = agent
        self._max_answers = max_answers

    async def resolve(self, question: Question) -> Resolution:
        if question.answered >= self._max_answers:
            return Resolution(
                answer=None, reason=f"guidance has given its {self._max_answers} answers"
            )
        if any(same_question(question.text, earlier) for earlier in question.asked):
            return Resolution(answer=None, reason="the question was asked before")
        return await self._agent.resolve(question)
