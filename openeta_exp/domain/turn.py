"""What a planner is told at the start of a turn."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import CameraArtifact, Observation
from openeta_exp.domain.tool import ToolResult


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
