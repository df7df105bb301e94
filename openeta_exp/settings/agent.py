"""What an agent may do besides seeing and acting: `agent`, and its Python: `sandbox=`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.record import Record


class AgentSettings(Record):
    """Tools of the session. None of them changes the world."""

    memory: bool = True
    """Whether it may keep values within its session."""
    skill_changes: bool = True
    """Whether it may have skills written for its session, by the rules of the profile."""
    enforce_allowed_tools: bool = False
    """Whether the skill in use decides which tools may be called."""


class NoSandboxSettings(Record):
    """The agent has no Python."""

    kind: Literal["none"] = "none"


class MontySandboxSettings(Record):
    """The agent's Python runs in a process of its own that reaches nothing but its folder."""

    kind: Literal["monty"] = "monty"
    processes: int = Field(default=2, ge=1, le=32)
    """Pieces of Python at once."""


SandboxSettings = Annotated[NoSandboxSettings | MontySandboxSettings, Field(discriminator="kind")]
