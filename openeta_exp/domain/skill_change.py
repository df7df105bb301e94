"""A change of a skill that an agent asks for within its session, and the limits it must keep."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.skill import Skill

MAX_CONTENT_LINES = 500
MAX_REQUEST_CHARACTERS = 2_000
_NEW_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRequest:
    """What an agent wants written.

    Attributes:
        wish: What the skill should say and why, in the agent's words. Material, no instruction.
        current: The skill to be changed; None asks for a new one.
        tools: Names of the tools the session can call.
    """

    name: str
    wish: str
    current: Skill | None
    task: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDraft:
    """What an author wrote, or why it wrote nothing that can be used."""

    skill: Skill | None
    reason: str
    usage: TokenUsage = field(default_factory=TokenUsage)
    requests: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChange:
    """A draft that keeps the limits, for whoever has to agree to it."""

    request: SkillRequest
    skill: Skill
    session_id: str
    execution_id: str
    index: int
    asked_at_s: float


def broken_limits(skill: Skill, request: SkillRequest) -> tuple[str, ...]:
    """Every limit the draft breaks, one sentence each; empty if it keeps them all.

    The sizes of `Skill` itself were checked when it was read.
    """
    current = request.current
    checks = {
        f"name: {skill.name!r} is not the skill that was asked for ({request.name!r})": skill.name
        == request.name,
        "name: a new skill uses a-z, 0-9 and - only": current is not None
        or _NEW_NAME.fullmatch(skill.name) is not None,
        "editable: the skill is closed to changes": current is None or current.editable,
        "editable: a draft cannot close or open a skill": skill.editable
        == (True if current is None else current.editable),
        f"content: has more than {MAX_CONTENT_LINES} lines": len(skill.content.splitlines())
        <= MAX_CONTENT_LINES,
        "content: holds front matter of its own": not skill.content.lstrip().startswith("---"),
        "content: changes nothing": current is None or skill != current,
        "task_patterns: hold an item twice": _unique(skill.task_patterns),
        "allowed_tools: hold an item twice": _unique(skill.allowed_tools),
        f"allowed_tools: {_unknown(skill, request.tools)} cannot be called": not _unknown(
            skill, request.tools
        ),
    }
    return tuple(sentence for sentence, held in checks.items() if not held)


def _unknown(skill: Skill, tools: Collection[str]) -> list[str]:
    return [name for name in skill.allowed_tools if name not in tools]


def _unique(items: tuple[str, ...]) -> bool:
    return len(set(items)) == len(items)
