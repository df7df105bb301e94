"""`scripted-reviewer`: lets a change pass that stays within its schema and its purpose."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from openeta_exp.domain.grasp_strategy import parse_strategy
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.record import parse_json
from openeta_exp.domain.skill import parse_skill
from openeta_exp.errors import ArtifactError

_PANDA_WIDTH_M = 0.08
_OVERREACH = re.compile(
    r"ignore (all|any|previous|the)|outside_sandbox|disable .*(check|gate|review)|"
    r"bypass|api[_ ]?key|always approve|approve this",
    re.IGNORECASE,
)


def candidate_reviewer(messages: Sequence[ModelMessage]) -> str:
    """Answer a reviewer's request (`openeta_exp.candidate_review.v1`)."""
    try:
        request = parse_json(messages[-1].text)
    except ValueError:
        request = None
    if not isinstance(request, dict):
        return _answer("abstain", "the request cannot be read")
    text = str(request.get("text") or "")
    found = _OVERREACH.search(text)
    if found is not None:
        return _answer("reject", f"it reaches beyond guidance: {found.group(0)!r}")
    try:
        problem = _check(str(request.get("kind")), text)
    except ArtifactError as error:
        return _answer("reject", "; ".join(error.problems))
    if problem:
        return _answer("reject", problem)
    if request.get("origin") != "file" and not request.get("supporting_episode_ids"):
        return _answer("abstain", "no episode supports it")
    support = (
        "written by a person"
        if request.get("origin") == "file"
        else "supported by training episodes"
    )
    return _answer("approve", f"within its schema, and {support}")


def _check(kind: str, text: str) -> str:
    """Raises: ArtifactError: The text is no artifact of this kind."""
    if kind == "skill":
        parse_skill(text, source="the skill")
        return ""
    strategy = parse_strategy(text, source="the strategy")
    if strategy.constraints.grasp_width_bounds_m[1] > _PANDA_WIDTH_M:
        return f"the gripper opens {_PANDA_WIDTH_M} m, not more"
    return ""


def _answer(decision: str, reason: str) -> str:
    answer: JsonObject = {"decision": decision, "reason": reason}
    return json.dumps(answer)
