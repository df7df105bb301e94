"""What every record that crosses a disk, a wire or a process has in common."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Self

from pydantic import BaseModel, ConfigDict, JsonValue


class Record(BaseModel):
    """An immutable fact with a closed set of fields and finite numbers."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
    )

    def to_json(self) -> str:
        """One line of JSON, the form the journal keeps."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Raises: pydantic.ValidationError."""
        return cls.model_validate_json(text)


def canonical_json(value: JsonValue | BaseModel) -> bytes:
    """The one byte string of a JSON value: sorted keys, no spaces, UTF-8, finite numbers.

    Raises:
        ValueError: If a number is not finite.
    """
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8")


def digest(value: JsonValue | BaseModel | bytes) -> str:
    """SHA-256 of the canonical bytes, as 64 lower-case hex digits. Identity is content."""
    content = value if isinstance(value, bytes) else canonical_json(value)
    return hashlib.sha256(content).hexdigest()


def parse_json(text: str | bytes) -> JsonValue:
    """JSON that can be kept: every value of it fits into a `Record` and out again.

    Raises:
        ValueError: If the text is not JSON or `check_json` refuses what it says.
    """
    try:
        value: JsonValue = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    check_json(value)
    return value


def check_json(value: JsonValue) -> None:
    """Whether a value can be kept as JSON and comes back equal.

    Raises:
        ValueError: If it holds a number that no double can hold or half a surrogate pair, or is
            nested deeper than `MAX_NESTING`.
    """
    level = [value]
    for depth in range(MAX_NESTING + 1):
        inside: list[JsonValue] = []
        for each in level:
            if isinstance(each, dict | list):
                if depth == MAX_NESTING:
                    raise ValueError(_TOO_DEEP)
                if isinstance(each, dict):
                    for key in each:
                        _check_text(key)
                    inside.extend(each.values())
                else:
                    inside.extend(each)
            elif isinstance(each, str):
                _check_text(each)
            else:
                _check_number(each)
        if not inside:
            return
        level = inside


MAX_NESTING = 100
"""Levels of lists and objects; pydantic gives up at some 250."""
_TOO_DEEP = f"the JSON is nested deeper than {MAX_NESTING} levels"


def _check_text(text: str) -> None:
    if not text.isascii():
        text.encode("utf-8")


def _check_number(number: float | None) -> None:
    """True, false and null pass as well."""
    try:
        finite = number is None or math.isfinite(number)
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(f"{str(number)[:20]} is not a JSON number")
