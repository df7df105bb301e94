"""The planner: chooses the next call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.decision import Decision
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.tool import ToolSpec
from openeta_exp.domain.turn import TurnContext


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerTurn:
    """One decision, or none if every answer was invalid.

    Attributes:
        decision: None once the validation retries are used up.
        errors: What was wrong with the last answer.
        usage: Tokens of every attempt of this turn.
        requests: Answers that were asked for, validation retries included.
        context_characters: Length of the longest request text.
    """

    decision: Decision | None
    errors: tuple[str, ...]
    usage: TokenUsage
    requests: int
    context_characters: int


class PlannerSession(Protocol):
    """The conversation of one episode."""

    async def decide(self, context: TurnContext) -> PlannerTurn:
        """Ask for the next decision, with up to two retries that carry the errors.

        Raises:
            ProviderError: The model could not be reached. Never dressed up as a decision.
        """
        ...


class Planner(Protocol):
    """Starts conversations. May be shared by any number of episodes."""

    @property
    def prompt_digest(self) -> str:
        """Digest of the prompt text every conversation starts with."""
        ...

    @property
    def scripted(self) -> bool:
        """True if no real model decides."""
        ...

    def start(
        self, spec: EpisodeSpec, *, tree: ArtifactTree, tools: tuple[ToolSpec, ...]
    ) -> PlannerSession: ...
