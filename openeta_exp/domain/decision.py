"""What a planner may answer: call tools, ask a person, talk, or claim to be done."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.record import Record
from openeta_exp.domain.tool import ToolCall


class CallTools(Record):
    """Call one tool, or several that do not change the world."""

    kind: Literal["call_tools"] = "call_tools"
    calls: tuple[ToolCall, ...] = Field(min_length=1)
    reasoning: str = ""


class AskHuman(Record):
    """Ask a question only a person, or guidance in their place, may answer."""

    kind: Literal["ask_human"] = "ask_human"
    question: str = Field(min_length=1)
    reasoning: str = ""


class Talk(Record):
    """Report instead of acting. Ends an unattended episode."""

    kind: Literal["talk"] = "talk"
    message: str
    reasoning: str = ""


class Finish(Record):
    """Claim that the task is over. A claim is recorded, never counted."""

    kind: Literal["finish"] = "finish"
    claims_success: bool = True
    reasoning: str = ""


Decision = Annotated[CallTools | AskHuman | Talk | Finish, Field(discriminator="kind")]
