"""What a planner may call, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from openeta_exp.domain.evidence import EnvironmentReceipt
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.record import Record


class ToolEffect(StrEnum):
    """What a tool may change. World-mutating calls go one at a time."""

    READ_ONLY = "read_only"
    BOOKKEEPING = "bookkeeping"
    PLANNING = "planning"
    WORLD_MUTATING = "world_mutating"


class ToolCall(Record):
    """One invocation as the planner asked for it."""

    name: str = Field(min_length=1)
    arguments: JsonObject = Field(default_factory=dict)


class Diagnostic(Record):
    """Why a call did not do what was asked."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """One tool as the planner is told about it.

    Attributes:
        parameters: JSON schema of the arguments object.
    """

    name: str
    description: str
    effect: ToolEffect
    parameters: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What one call did.

    Attributes:
        outputs: What the planner is shown.
        observation: The fresh view the tool brought along, if any.
        receipt: The environment's word on reward and end, only from environment tools.
        reached_target: For motions: did the end effector arrive within tolerance?
    """

    call: ToolCall
    effect: ToolEffect
    success: bool
    outputs: JsonObject
    diagnostics: tuple[Diagnostic, ...] = ()
    observation: Observation | None = None
    receipt: EnvironmentReceipt | None = None
    reached_target: bool | None = None


def refused(call: ToolCall, effect: ToolEffect, *, code: str, message: str) -> ToolResult:
    """A call that was not carried out, with the reason the planner gets to read."""
    return ToolResult(
        call=call,
        effect=effect,
        success=False,
        outputs={"error": message},
        diagnostics=(Diagnostic(code=code, message=message),),
    )
