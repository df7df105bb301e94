"""The numbered tool sequence of a skill, and what it says to do when a grasp is missed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from openeta_exp.wire.planner_context import SKILL_CUT_NOTE

_SECTION = re.compile(r"^##+\s+(.+?)\s*$")
_STEP = re.compile(r"^\s{0,3}(\d{1,3})[.)]\s+`([A-Za-z0-9_.-]+)`\s*([A-Za-z_-]*)")
_BULLET = re.compile(r"^\s*[-*]\s+")
_GO_ON = re.compile(r"\bstep (\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the sequence: "8. `move_to` contact: descend to the contact pose."

    Attributes:
        number: As written; the recovery rules refer to it.
        role: The word after the tool, lower case; empty if there is none.
    """

    number: int
    tool: str
    role: str


@dataclass(frozen=True, slots=True)
class SkillSteps:
    """A skill as a program.

    Attributes:
        after_miss: Index into `steps` where to go on with the next grasp candidate; None if the
            skill does not say.
        cut: The context holds only the beginning of the skill.
    """

    name: str
    steps: tuple[Step, ...]
    after_miss: int | None
    cut: bool


def parse_steps(name: str, text: str) -> SkillSteps:
    """Read the lines under "Tool sequence" and "Recovery"; anything else is prose."""
    sequence, recovery = _section(text, "tool sequence"), _section(text, "recovery")
    steps = tuple(
        Step(number=int(match[1]), tool=match[2], role=match[3].lower())
        for match in map(_STEP.match, sequence)
        if match is not None
    )
    return SkillSteps(name, steps, _after_miss(recovery, steps), SKILL_CUT_NOTE in text)


def _section(text: str, title: str) -> list[str]:
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading is not None:
            inside = heading[1].lower() == title
        elif inside:
            lines.append(line)
    return lines


def _after_miss(recovery: list[str], steps: tuple[Step, ...]) -> int | None:
    """The step a rule like "if the contact pose was not reached ... go on with step 5" names."""
    for rule in _bullets(recovery):
        go_on = _GO_ON.search(rule)
        if "not reached" not in rule or go_on is None:
            continue
        number = int(go_on[1])
        return next((at for at, step in enumerate(steps) if step.number == number), None)
    return None


def _bullets(lines: list[str]) -> list[str]:
    """Items of a list with their continuation lines joined."""
    items: list[str] = []
    for line in lines:
        if _BULLET.match(line) or not items:
            items.append(_BULLET.sub("", line).strip())
        else:
            items[-1] = f"{items[-1]} {line.strip()}"
    return items
