"""Skills: reviewable markdown guidance with front matter, never executable."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated

import yaml
from pydantic import AfterValidator, Field, ValidationError

from openeta_exp.domain.record import Record
from openeta_exp.errors import ArtifactError

UNREADABLE_SCALAR = (ValueError, LookupError, AttributeError)
"""What PyYAML raises besides its own errors, for a text that is tagged or written as a date, a
number or a truth value and is none."""
NO_SUCH_SCALAR = "has a value that is written like a date or a number and is none; put it in quotes"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_FENCE = "---"


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("use 1 to 64 of the characters a-z 0-9 _ . -, starting with a-z or 0-9")
    return name


def _check_item(item: str) -> str:
    if not item.strip() or "\n" in item or len(item) > 500:
        raise ValueError("use one non-empty line of at most 500 characters")
    return item


Item = Annotated[str, AfterValidator(_check_item)]


class Skill(Record):
    """One skill as it stands in `<name>.md`."""

    name: Annotated[str, AfterValidator(_check_name)]
    description: str = Field(default="", max_length=1000)
    version: str = Field(default="v1", max_length=32)
    editable: bool = True
    task_patterns: tuple[Item, ...] = Field(default=(), max_length=50)
    allowed_tools: tuple[Item, ...] = Field(default=(), max_length=50)
    content: str = Field(min_length=1, max_length=20_000)
    """The markdown body: what the planner reads."""


@lru_cache(maxsize=256)
def parse_skill(text: str, *, source: str) -> Skill:
    """Read a skill file; the same text is read once, as every episode of a batch asks for it.

    Raises:
        ArtifactError: With one sentence per mistake, naming `source`.
    """
    head, body = _split(text, source=source)
    try:
        fields = yaml.safe_load(head)
    except RecursionError as error:
        raise ArtifactError(f"{source}: the front matter is nested too deeply") from error
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ArtifactError(f"{source}: the front matter is not YAML: {reason}") from error
    except UNREADABLE_SCALAR as error:
        raise ArtifactError(f"{source}: the front matter {NO_SUCH_SCALAR}") from error
    if not isinstance(fields, dict):
        raise ArtifactError(f"{source}: the front matter must be `key: value` lines")
    try:
        return Skill.model_validate({**fields, "content": body})
    except ValidationError as error:
        raise ArtifactError(
            [
                f"{source}: {'.'.join(map(str, each['loc']))}: {each['msg']}"
                for each in error.errors()
            ]
        ) from error


def render_skill(skill: Skill) -> str:
    """The file text of a skill; `parse_skill` gives it back unchanged."""
    fields = skill.model_dump(mode="json", exclude={"content"})
    head = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
    return f"{_FENCE}\n{head}{_FENCE}\n{skill.content}\n"


def _split(text: str, *, source: str) -> tuple[str, str]:
    lines = text.splitlines()
    if not lines or lines[0].strip() != _FENCE or _FENCE not in map(str.strip, lines[1:]):
        raise ArtifactError(f"{source}: begin the file with front matter between two `---` lines")
    end = next(at for at, line in enumerate(lines[1:], start=1) if line.strip() == _FENCE)
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]).strip("\n")


def relevance(skill: Skill, query: str) -> int:
    """How well a skill fits a task text; higher is better, 0 is unrelated.

    The weights are those of the reference's selection: name, name tokens, patterns, description.
    """
    text = query.lower()
    words = set(re.findall(r"[a-z0-9]+", text))
    tokens = re.findall(r"[a-z0-9]+", skill.name.lower())
    score = 8 * (skill.name.lower() in text) + 4 * sum(token in words for token in tokens)
    for pattern in skill.task_patterns:
        pattern_words = set(re.findall(r"[a-z0-9]+", pattern.lower()))
        if pattern.lower() == text:
            score += 8
        elif pattern.lower() in text:
            score += 6
        elif pattern_words & words:
            score += 3
    described = set(re.findall(r"[a-z0-9]+", skill.description.lower()))
    return score + min(3, len(described & words))
