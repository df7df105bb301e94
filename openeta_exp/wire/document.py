"""JSON and YAML text -> plain values, with the mistakes that both formats let pass.

A parser that keeps the last of two equal keys, or a number that is none, hides a typo: both are
reported here, together with everything else in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from pathlib import Path

import yaml
from pydantic import JsonValue

from openeta_exp.domain.skill import NO_SUCH_SCALAR, UNREADABLE_SCALAR

MAX_BYTES = 64 * 1024 * 1024


class DocumentError(ValueError):
    """The text is no usable JSON or YAML.

    Attributes:
        problems: One sentence each, without the name of the file.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def read_document(path: Path) -> JsonValue:
    """The value in a file; `.json` is read as JSON, everything else as YAML, which includes JSON.

    Raises:
        DocumentError: With every mistake of the text.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DocumentError([f"is larger than {MAX_BYTES // 2**20} MB"])
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DocumentError([f"cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise DocumentError([f"is not UTF-8 text: {error.reason} at byte {error.start}"]) from error
    return parse_document(text, is_json=path.suffix.lower() == ".json")


def parse_document(text: str, *, is_json: bool) -> JsonValue:
    """Raises: DocumentError: With every mistake of the text."""
    if not text.strip():
        raise DocumentError(["is empty"])
    problems: list[str] = []
    try:
        value = _parse_json(text, problems) if is_json else _parse_yaml(text, problems)
    except RecursionError as error:
        raise DocumentError(["is nested too deeply, or contains itself"]) from error
    if problems:
        raise DocumentError(problems)
    return value


def _parse_json(text: str, problems: list[str]) -> JsonValue:
    def without_doubles(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        fields: dict[str, JsonValue] = {}
        for key, value in pairs:
            if key in fields:
                problems.append(f"{key!r} is given more than once in one object; keep one")
            fields[key] = value
        return fields

    try:
        value: JsonValue = json.loads(text, object_pairs_hook=without_doubles)
    except json.JSONDecodeError as error:
        raise DocumentError(
            [f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"]
        ) from error
    except ValueError as error:
        raise DocumentError([f"is not JSON: {error}"]) from error
    return value


def _parse_yaml(text: str, problems: list[str]) -> JsonValue:
    loader = _Loader(text)
    try:
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
        raise DocumentError([f"is not YAML: {error.problem}{place}"]) from error
    except yaml.YAMLError as error:
        raise DocumentError([f"is not YAML: {' '.join(str(error).split())}"]) from error
    except UNREADABLE_SCALAR as error:
        raise DocumentError([NO_SUCH_SCALAR]) from error
    finally:
        loader.dispose()
    problems += loader.doubles
    return _as_json(value, problems, "")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, noting keys that occur twice."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.doubles: list[str] = []

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if isinstance(key, str) and key_node.tag != "tag:yaml.org,2002:merge":
                if key in seen:
                    line = key_node.start_mark.line + 1
                    self.doubles.append(f"{key!r} is given more than once (line {line}); keep one")
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


# YAML 1.1 reads 1e-3 as a text; whoever writes it means the number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+"),
    list("-+0123456789"),
)


def _as_json(value: object, problems: list[str], path: str) -> JsonValue:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_as_json(each, problems, f"{path}[{at}]") for at, each in enumerate(value)]
        case dict():
            fields: dict[str, JsonValue] = {}
            for key, inner in value.items():
                if not isinstance(key, str):
                    problems.append(f"{path or 'top level'}: the key {key!r} must be a text")
                fields[str(key)] = _as_json(inner, problems, f"{path}.{key}" if path else str(key))
            return fields
        case _:
            problems.append(f"{path}: {value} is no JSON value; put it in quotes")
            return str(value)
