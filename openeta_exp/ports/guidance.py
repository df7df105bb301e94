"""Who answers a planner's question in a person's place."""

from __future__ import annotations

from typing import Protocol

from openeta_exp.domain.guidance import Question, Resolution


class Guidance(Protocol):
    """Answers questions in a person's place. Shared by all episodes."""

    async def resolve(self, question: Question) -> Resolution:
        """Never raises for a guidance agent that fails: that is no answer.

        Raises:
            ProviderQueueTimeout: The request could not even be queued.
        """
        ...
