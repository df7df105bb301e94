"""A call that waits for a person, and the one answer it gets."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from openeta_exp.domain.identity import Digest, JsonObject, PathComponent
from openeta_exp.domain.record import Record, digest


class ApprovalKind(StrEnum):
    """What is to be approved."""

    TOOL_CALL = "tool_call"
    SKILL_CHANGE = "skill_change"


class ApprovalRequest(Record):
    """Everything a person needs to decide, and nothing that could be decided for another call."""

    schema_version: Literal["openeta_exp.approval_request.v1"] = "openeta_exp.approval_request.v1"
    kind: ApprovalKind
    session_id: str
    execution_id: str
    index: int
    """Position of the call among the tool calls of the episode."""
    task: str
    name: str
    """The tool, or the skill."""
    content: JsonObject
    """The arguments, or the changed skill."""
    reasoning: str
    evidence: JsonObject
    asked_at_s: float
    expires_at_s: float

    @property
    def interaction_id(self) -> PathComponent:
        """Names this very call of this very execution."""
        return f"approval-{self.content_digest[:16]}"

    @property
    def content_digest(self) -> Digest:
        return Digest(digest(self))


class AnsweredBy(StrEnum):
    """Where an answer comes from."""

    INBOX = "inbox"
    TERMINAL = "terminal"
    TIMEOUT = "timeout"
    """Nobody answered; the episode needs a person."""


class ApprovalAnswer(Record):
    """The first answer counts, and there is never a second."""

    schema_version: Literal["openeta_exp.approval_answer.v1"] = "openeta_exp.approval_answer.v1"
    interaction_id: str
    request_digest: Digest
    """Of the request as it was shown: an answer to anything else is none."""
    allowed: bool
    reason: str = ""
    by: AnsweredBy
    at_s: float
