"""`scripted-skill-author`: writes down what was wished for, without what no skill may say."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import ConfigDict, ValidationError

from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.record import Record
from openeta_exp.domain.skill import Skill
from openeta_exp.embedded.models.overreach import overreach, plain

MAX_CONTENT_CHARACTERS = 8_000
"""Far below the limit, so that an answer fits into its tokens."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_SECRET = re.compile(r"\b(?:key|token|password|secret|/etc|other session)", re.IGNORECASE)


class _Request(Record):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    wish: str
    current: Skill | None = None
    tools: tuple[str, ...] = ()


def skill_author(messages: Sequence[ModelMessage]) -> str:
    """Answer an author's request (`openeta_exp.skill_request.v1`)."""
    try:
        request = _Request.model_validate_json(messages[-1].text)
    except ValidationError:
        return json.dumps({"description": "I write skills and cannot read this."})
    wishes = [
        sentence
        for sentence in _SENTENCE.split(request.wish)
        if sentence.strip() and overreach(sentence) is None and not _SECRET.search(plain(sentence))
    ]
    wished = " ".join(plain(sentence) for sentence in wishes)
    named = tuple(tool for tool in request.tools if re.search(rf"\b{re.escape(tool)}\b", wished))
    current = request.current
    if current is None:
        written = _new(request.name, wishes, named)
    else:
        written = _revised(current, wishes, named)
    return json.dumps(written.model_dump(mode="json", exclude={"editable"}))


def _new(name: str, wishes: list[str], named: tuple[str, ...]) -> Skill:
    said = "\n".join(f"- {plain(each)}" for each in wishes) or "- Nothing was asked for."
    steps = "\n".join(f"{at}. `{tool}`" for at, tool in enumerate(named, start=1))
    content = (
        f"# {name}\n\n{said}\n\n## Tool sequence\n{steps or '1. Look before acting.'}\n\n"
        "## Recovery\n- If a step fails, look again and go back to the step before it."
    )
    first = plain(wishes[0]) if wishes else "An empty skill."
    return Skill(
        name=name,
        description=first[:200],
        task_patterns=(name.replace("-", " "),),
        allowed_tools=named,
        content=content[:MAX_CONTENT_CHARACTERS],
    )


def _revised(current: Skill, wishes: list[str], named: tuple[str, ...]) -> Skill:
    notes = "\n".join(f"- {plain(each)}" for each in wishes) or "- Nothing was added."
    content = f"{current.content.rstrip()}\n\n## Notes\n{notes}"
    if "recover" not in content.lower():
        content += (
            "\n\n## Recovery\n- If a step fails, look again and go back to the one before it."
        )
    return current.model_copy(
        update={
            "content": content[:MAX_CONTENT_CHARACTERS],
            "allowed_tools": tuple(dict.fromkeys((*current.allowed_tools, *named))),
        }
    )
