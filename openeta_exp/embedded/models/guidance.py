"""`scripted-guidance`: answers only what one sentence of the task settles by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import ConfigDict, ValidationError

from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.record import Record
from openeta_exp.embedded.models.overreach import overreach, plain
from openeta_exp.embedded.models.planner.task import PickAndPlace, parse_task

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_OPEN = re.compile(r"\b(?:or|either|alternatively|otherwise|instead|maybe)\b", re.IGNORECASE)
_ABOUT_TASK = re.compile(
    r"\b(?:which|what|where|who|object|goal|target|go|place|put|destination|task|do)\b",
    re.IGNORECASE,
)


class _Request(Record):
    model_config = ConfigDict(extra="ignore", frozen=True)

    task: str
    question: str


def guidance(messages: Sequence[ModelMessage]) -> str:
    """Answer a guidance request (`openeta_exp.guidance_request.v1`)."""
    try:
        request = _Request.model_validate_json(messages[-1].text)
    except ValidationError:
        return _abstain("the request cannot be read")
    asked = overreach(request.question) or overreach(request.task)
    if asked is not None:
        return _abstain(f"nobody may be helped to get around a safeguard: {asked!r}")
    if not _ABOUT_TASK.search(request.question):
        return _abstain("the task does not say")
    if _OPEN.search(plain(request.task)):
        return _abstain("the task leaves a choice open")
    readings = _readings(request.task)
    if len(readings) != 1:
        return _abstain(
            "no sentence of the task says it" if not readings else "the task can be read two ways"
        )
    ((task, sentence),) = readings.items()
    if not _asks_for(request.question, task):
        return _abstain("the task does not say")
    return json.dumps({"decision": "answer", "answer": sentence, "reason": "the task says so"})


def _readings(text: str) -> dict[PickAndPlace, str]:
    """What each sentence of the task asks for, by what it asks."""
    found: dict[PickAndPlace, str] = {}
    for sentence in _SENTENCE.split(plain_lines(text)):
        stripped = sentence.strip().rstrip(".!;")
        task = parse_task(stripped)
        if task is not None:
            found.setdefault(task, stripped)
    return found


def plain_lines(text: str) -> str:
    return "\n".join(plain(line) for line in text.splitlines())


_DETAIL = re.compile(
    r"\b(?:force|speed|fast|slow|colour|color|angle|degrees?|height|coordinates?|"
    r"password|fragile|hot|owner|metres?|newtons?|time|today|how (?:many|much|far|high))\b",
    re.IGNORECASE,
)


def _asks_for(question: str, task: PickAndPlace) -> bool:
    """Whether target and goal are all it takes to answer the question."""
    if _DETAIL.search(question):
        return False
    said = set(re.findall(r"[a-z]+", f"{task.target} {task.goal}".lower()))
    named = re.findall(r"\bthe ([a-z]+(?: [a-z]+)?)\b", question.lower())
    generic = {"object", "goal", "target", "task", "destination", "thing", "robot", "item", "arm"}
    return all(set(phrase.split()) & (said | generic) for phrase in named)


def _abstain(reason: str) -> str:
    return json.dumps({"decision": "abstain", "answer": "", "reason": reason})
