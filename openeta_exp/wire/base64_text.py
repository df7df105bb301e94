"""Images as base64 text, the same rules for every service."""

from __future__ import annotations

from pybase64 import b64decode, b64encode_as_string


def encode_base64(content: bytes) -> str:
    """Standard base64, in one line."""
    return b64encode_as_string(content)


def decode_base64(text: str) -> bytes:
    """Standard base64, with or without a data-URL prefix and line breaks.

    Raises:
        ValueError: If anything else is in it. (Python's default skips it without a word.)
    """
    encoded = text.rpartition(",")[2] if text[:5] == "data:" else text
    return b64decode("".join(encoded.split()), validate=True)
