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
        ValueError: If the text is not JSON, holds a number that no double can hold or half a
            surrogate pair, or is nested deeper than `MAX_NESTING`.
    """
    try:
        value: JsonValue = json.loads(
            text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole
        )
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if _has_escape(text):
        # An escape may be half a pair, which no UTF-8 can say. Raises a ValueError.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    if _deeper_than(MAX_NESTING, value):
        raise ValueError(f"the JSON is nested deeper than {MAX_NESTING} levels")
    return value


def _has_escape(text: str | bytes) -> bool:
    """Whether an escape of a code point is in it. One character is found far faster than two."""
    if isinstance(text, str):
        return "\\" in text and "\\u" in text
    return b"\\" in text and b"\\u" in text


MAX_NESTING = 100
"""Levels of lists and objects; pydantic gives up at some 250."""


def _refuse(token: str) -> float:
    raise ValueError(f"{token} is not a JSON number")


def _finite(token: str) -> float:
    number = float(token)
    return number if math.isfinite(number) else _refuse(token[:20])


def _whole(token: str) -> int:
    # The longest whole number below the largest double has 309 digits.
    if len(token) > 308 and not math.isfinite(float(token)):
        _refuse(f"{token[:20]}...")
    return int(token)


def _deeper_than(limit: int, value: JsonValue) -> bool:
    level = [each for each in (value,) if isinstance(each, dict | list)]
    for _ in range(limit):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [inner for values in inside for inner in values if isinstance(inner, dict | list)]
        if not level:
            return False
    return True
