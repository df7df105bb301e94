"""What a session's skill author and its reviewer are told and answer, as text."""

from __future__ import annotations

import json

from pydantic import JsonValue, ValidationError

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.skill import Skill, render_skill
from openeta_exp.domain.skill_change import SkillChange, SkillRequest
from openeta_exp.wire.authoring import AuthoringError, diff
from openeta_exp.wire.model_json import AnswerError, the_object

REQUEST_SCHEMA = "openeta_exp.skill_request.v1"
CHANGE_SCHEMA = "openeta_exp.skill_change.v1"
_WRITTEN = frozenset(
    {"name", "description", "content", "task_patterns", "allowed_tools", "version"}
)


def render_request(request: SkillRequest) -> str:
    """One JSON object: what is wanted, what there is, and what can be called."""
    value: JsonObject = {
        "schema_version": REQUEST_SCHEMA,
        "name": request.name,
        "wish": request.wish,
        "current": None if request.current is None else _skill_json(request.current),
        "task": request.task,
        "tools": list[JsonValue](request.tools),
    }
    return json.dumps(value)


def parse_draft(text: str, request: SkillRequest) -> Skill:
    """The skill an author wrote. Fields it was not asked for are refused, not dropped.

    Raises:
        AuthoringError: The answer is no skill, with every reason.
    """
    try:
        fields = the_object(text, keys=_WRITTEN)
    except AnswerError as error:
        raise AuthoringError(str(error)) from error
    foreign = sorted(fields.keys() - _WRITTEN)
    if foreign:
        raise AuthoringError(f"{foreign}: only {sorted(_WRITTEN)} may be written")
    editable = True if request.current is None else request.current.editable
    try:
        return Skill.model_validate_json(json.dumps({**fields, "editable": editable}))
    except ValidationError as error:
        raise AuthoringError(
            "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            )
        ) from error


def render_change(change: SkillChange) -> str:
    """One JSON object: the wish, the draft, and how it differs from what there was."""
    current = change.request.current
    old = "" if current is None else render_skill(current)
    value: JsonObject = {
        "schema_version": CHANGE_SCHEMA,
        "kind": "skill",
        "name": change.skill.name,
        "wish": change.request.wish,
        "task": change.request.task,
        "tools": list[JsonValue](change.request.tools),
        "takes_the_place_of": None if current is None else current.name,
        "skill": _skill_json(change.skill),
        "text": render_skill(change.skill),
        "diff": diff(old, render_skill(change.skill)),
    }
    return json.dumps(value)


def _skill_json(skill: Skill) -> JsonObject:
    return skill.model_dump(mode="json")
