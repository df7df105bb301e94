"""Approvement profiles, and what is asked and answered before the world is changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.tool import ToolCall, ToolSpec


class ApprovementProfile(StrEnum):
    """How much an agent may do without a person. Never switches off a deterministic check."""

    HUMAN_GATED = "human_gated"
    """A person approves every world-mutating call and every skill change."""
    STANDARD = "standard"
    """Deterministic gates decide; a person answers questions."""
    REVIEWED_AUTONOMY = "reviewed_autonomy"
    """An independent reviewer decides on calls and skill changes; guidance answers questions."""


class OnNeedHuman(StrEnum):
    """What becomes of an episode that needs a person."""

    FAIL = "fail"
    """It ends with `need_human_in_unattended_run`."""
    PAUSE = "pause"
    """It is kept as a record and can be resumed with an answer."""


class ActionDecision(StrEnum):
    """What a reviewer says of a call. Only an approval lets it run."""

    APPROVE = "approve"
    REJECT = "reject"
    ABSTAIN = "abstain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """What a reviewer or a person gets to see of a proposed call.

    Attributes:
        execution_id: The run the call belongs to; an approval counts for no other.
        index: Position of the call among the tool calls of the episode, from 1.
        evidence: What the host knows of the scene and how it came to know it (see
            `engine.scene_evidence`). No tool writes it.
        answers: What guidance or a person has answered in this episode, newest last.
    """

    task: str
    session_id: str
    execution_id: str
    index: int
    tool: ToolSpec
    call: ToolCall
    observation: Observation
    evidence: JsonObject
    answers: tuple[str, ...]
    reasoning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """The answer of the gate.

    Attributes:
        by: `runtime`, `reviewer` or `human`.
        requests: Model requests it took.
        needs_human: A person did not answer in time; the episode must pause or end.
    """

    allowed: bool
    by: str
    reason: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    requests: int = 0
    needs_human: bool = False
