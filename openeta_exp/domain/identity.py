"""Names of things. A name is a label; identity is a digest of content (`record.digest`)."""

from __future__ import annotations

import re
from typing import Annotated, NewType

from pydantic import AfterValidator, JsonValue

EpisodeId = NewType("EpisodeId", str)
"""Label of an episode, unique within a manifest."""

SessionId = NewType("SessionId", str)
"""Names the private directory and conversation of one episode attempt."""

ExecutionId = NewType("ExecutionId", str)
"""One run of one episode from reset to verdict. Receipts are bound to it."""

Digest = NewType("Digest", str)
"""64 lower-case hex digits of SHA-256."""

JsonObject = dict[str, JsonValue]
"""A JSON object whose meaning belongs to somebody else: tool arguments, tags, scenario values."""

_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")


def check_path_component(name: str) -> str:
    """Accept a name that may become one directory: 1 to 96 of `A-Za-z0-9_.-`, no leading dot.

    Raises:
        ValueError: Otherwise.
    """
    if not _COMPONENT.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a directory; use 1 to 96 of the characters A-Z a-z 0-9 _ . -, "
            "starting with a letter or digit"
        )
    return name


PathComponent = Annotated[str, AfterValidator(check_path_component)]
