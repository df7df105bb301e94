"""What every record that crosses a disk, a wire or a process has in common."""

from __future__ import annotations

import hashlib
import json
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
    """Raises: ValueError: If the text is not JSON, or holds NaN or infinity."""

    def refuse(token: str) -> JsonValue:
        raise ValueError(f"{token} is not a JSON number")

    value: JsonValue = json.loads(text, parse_constant=refuse)
    return value
