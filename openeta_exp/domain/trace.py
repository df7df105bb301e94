"""What one turn looked like afterwards: everything but the pixels."""

from __future__ import annotations

import hashlib

from pydantic import Field, JsonValue

from openeta_exp.domain.decision import Decision
from openeta_exp.domain.evidence import EnvironmentReceipt
from openeta_exp.domain.guidance import AnsweredQuestion
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.record import Record
from openeta_exp.domain.tool import Diagnostic, ToolCall, ToolEffect, ToolResult

LONGEST_TEXT = 8000
"""Characters of one string in a traced output; longer ones are cut and say so."""


class TracedView(Record):
    """An observation by its digests."""

    eef_xyz_m: tuple[float, float, float]
    gripper_openness: float
    state_digest: str | None
    frame_sha256: dict[str, str]


class TracedResult(Record):
    """What one call did, as the planner was told."""

    call: ToolCall
    effect: ToolEffect
    success: bool
    outputs: JsonObject
    diagnostics: tuple[Diagnostic, ...]
    reached_target: bool | None
    receipt: EnvironmentReceipt | None
    view: TracedView | None


class TracedAuthorization(Record):
    """What the gate said of one world-mutating call."""

    tool: str
    allowed: bool
    by: str
    """`runtime`, `reviewer` or `human`."""
    reason: str = ""


class TracedQuestion(Record):
    """A question the planner asked instead of acting."""

    question: str
    answer: AnsweredQuestion | None
    reason: str = ""
    """Why there was no answer."""


class TurnTrace(Record):
    """One line of a session's trace."""

    turn: int = Field(ge=0)
    at_s: float
    """Unix time at the start of the turn."""
    seen: TracedView
    """What the planner decided upon."""
    feedback: tuple[str, ...] = ()
    decision: Decision | None
    """None if no answer was valid."""
    errors: tuple[str, ...] = ()
    authorizations: tuple[TracedAuthorization, ...] = ()
    results: tuple[TracedResult, ...] = ()
    asked: TracedQuestion | None = None
    usage: TokenUsage = TokenUsage()
    requests: int = Field(default=0, ge=0)
    context_characters: int = Field(default=0, ge=0)
    decide_s: float = Field(default=0.0, ge=0)
    act_s: float = Field(default=0.0, ge=0)


def traced_view(observation: Observation) -> TracedView:
    return TracedView(
        eef_xyz_m=observation.robot.eef_xyz_m,
        gripper_openness=observation.robot.gripper_openness,
        state_digest=observation.state_digest,
        frame_sha256={frame.frame_id: frame.rgb_sha256 for frame in observation.cameras},
    )


def traced_result(result: ToolResult) -> TracedResult:
    outputs = shortened(result.outputs)
    assert isinstance(outputs, dict), "shortening keeps the shape"
    return TracedResult(
        call=result.call,
        effect=result.effect,
        success=result.success,
        outputs=outputs,
        diagnostics=result.diagnostics,
        reached_target=result.reached_target,
        receipt=result.receipt,
        view=None if result.observation is None else traced_view(result.observation),
    )


def shortened(value: JsonValue) -> JsonValue:
    """The same JSON with every long string cut, so that no encoded image grows a trace."""
    match value:
        case str() if len(value) > LONGEST_TEXT:
            name = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
            return f"{value[:200]}... ({len(value)} characters, sha256 {name})"
        case list():
            return [shortened(each) for each in value]
        case dict():
            return {key: shortened(each) for key, each in value.items()}
        case _:
            return value
