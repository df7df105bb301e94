"""`scripted-skill-reviewer`: lets a skill change pass that is bounded and does what was wished."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import ConfigDict, ValidationError

from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.record import Record
from openeta_exp.domain.skill import Skill
from openeta_exp.embedded.models.candidate_reviewer import candidate_reviewer
from openeta_exp.embedded.models.overreach import overreach, plain
from openeta_exp.wire.skill_change import CHANGE_SCHEMA

_TOOL = re.compile(r"`([a-z][a-z0-9_]{2,})`")
_SECRET = re.compile(
    r"\b(?:api[_ -]?key|password|secret|token file|/etc/|~/|other sessions?|environment variable)",
    re.IGNORECASE,
)
_COORDINATES = re.compile(r"(?:-?\d+\.\d+[,\s]+){2}-?\d+\.\d+|\b[xyz]\s*=\s*-?\d+\.\d+")
_EMPTY_WISHES = re.compile(
    r"\b(?:better|nicer|improve|optimi[sz]e|something|whatever|as needed|somehow|etc)\b",
    re.IGNORECASE,
)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "add and before each for from has its make please should skill step than that the then "
        "this was what when with",
    )
)


class _Request(Record):
    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: str
    wish: str
    tools: tuple[str, ...] = ()
    skill: Skill
    diff: str = ""


def skill_reviewer(messages: Sequence[ModelMessage]) -> str:
    """Answer a request about a session's change (`openeta_exp.skill_change.v1`) or, like
    `scripted-reviewer`, about a candidate."""
    try:
        request = _Request.model_validate_json(messages[-1].text)
    except ValidationError:
        return candidate_reviewer(messages)
    if request.schema_version != CHANGE_SCHEMA:
        return candidate_reviewer(messages)
    decision, reason = _judge(request)
    return json.dumps({"decision": decision, "reason": reason})


def _judge(request: _Request) -> tuple[str, str]:
    skill = request.skill
    said = plain(
        f"{skill.name} {skill.description} {skill.content} {' '.join(skill.task_patterns)}"
    )
    asked = overreach(said) or overreach(request.wish)
    if asked is not None:
        return "reject", f"it reaches beyond guidance: {asked!r}"
    for pattern, what in ((_SECRET, "what no session may reach"), (_COORDINATES, "coordinates")):
        found = pattern.search(said)
        if found is not None:
            return "reject", f"it speaks of {what}: {found.group(0)!r}"
    unknown = sorted(set(skill.allowed_tools) - set(request.tools))
    if unknown:
        return "reject", f"it allows tools that cannot be called: {unknown}"
    hidden = sorted(
        set(_TOOL.findall(skill.content)) - set(skill.allowed_tools) - {"task_complete"}
    )
    if hidden:
        return "reject", f"it uses tools it does not list: {hidden}"
    wished = _words(request.wish)
    if len(wished) < 3 or (_EMPTY_WISHES.search(request.wish) and len(wished) < 6):
        return "abstain", "the wish does not say enough to judge the draft by"
    if len(wished & _words(said)) * 2 < len(wished):
        return "abstain", "the draft is about something else than the wish"
    if "recover" not in said.lower() and "fail" not in said.lower():
        return "abstain", "it does not say what to do when a step fails"
    return "approve", "bounded guidance that does what was wished for"


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9_]{3,}", plain(text).lower())) - _COMMON
