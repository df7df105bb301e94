"""The planner: chooses the next call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.decision import Decision
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.observation import CameraArtifact, Observation
from openeta_exp.domain.tool import ToolResult, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """What the planner learns at the start of a turn.

    Attributes:
        turn: From 0.
        results: What the previous turn's calls did, in order.
        feedback: Host messages since the last turn: denials, advanced candidates, guidance.
        artifacts: Images of the current observation, in the documented order.
        host_state: What the host keeps and no tool can address (active grasp candidate, success).
    """

    turn: int
    remaining_turns: int
    remaining_tool_calls: int
    observation: Observation
    artifacts: tuple[CameraArtifact, ...]
    results: tuple[ToolResult, ...]
    feedback: tuple[str, ...]
    host_state: JsonObject


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
