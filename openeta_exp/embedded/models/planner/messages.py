"""The user messages of a planner's conversation as records, as far as the planner reads them."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record


class Tolerant(Record):
    model_config = ConfigDict(extra="ignore", frozen=True)


class OfferedTool(Tolerant):
    name: str
    effect: str = "world_mutating"
    parameters: JsonObject = Field(default_factory=dict)


class Result(Tolerant):
    tool: str
    success: bool = False
    outputs: JsonObject = Field(default_factory=dict)


class Robot(Tolerant):
    eef_xyz_m: tuple[float, float, float]
    gripper_openness: float


class Observation(Tolerant):
    robot: Robot


class Candidate(Tolerant):
    id: str


class Environment(Tolerant):
    success: bool | None = None


class HostState(Tolerant):
    active_grasp_candidate: Candidate | None = None
    candidates_exhausted: bool = False
    environment: Environment = Environment()


class PastMessage(Tolerant):
    """A user message of an earlier turn."""

    results: tuple[Result, ...] = ()
    feedback: tuple[str, ...] = ()


class Now(PastMessage):
    """The `tool_context` of the last user message."""

    turn: int = 0
    observation: Observation
    host_state: HostState = HostState()


class LastMessage(Tolerant):
    instruction: str
    tool_context: Now
