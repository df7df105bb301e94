"""What is wrong with a value somebody wrote, in words they can act on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from openeta_exp.domain.counting import counted

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SECRET_NAME = re.compile(r"(api_?key|token|secret|password|passwd|credentials)$", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY = re.compile(r"(://[^?\s]*\?).+")
_SHOWN_CHARACTERS = 80


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that does not exist: the closest known one, else all of them."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"use one of {', '.join(choices)}" if choices else "leave it out"


def show(value: object, *, name: str = "") -> str:
    """A value as it may be printed: short, and never a secret."""
    if _SECRET_NAME.search(name):
        return "***"
    match value:
        case None:
            text = "null"
        case bool():
            text = str(value).lower()
        case str():
            text = repr(value)
        case dict():
            text = "{...}" if value else "{}"
        case list() | tuple():
            text = f"[{counted(len(value), 'item')}]" if value else "[]"
        case _:
            text = str(value)
    text = _QUERY.sub(r"\1***", _USER_INFO.sub("***@", text))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def printable(text: str) -> str:
    """Text on one line, without control characters: names in it may come from anywhere."""
    return "".join(each if each.isprintable() else " " for each in text)


def is_secret(name: str) -> bool:
    """Whether a field of this name would hold a secret, which no file may."""
    return _SECRET_NAME.search(name) is not None


_REASONS = {
    "missing": "is missing; give it a value",
    "int_type": "must be a whole number, without quotes",
    "int_parsing": "must be a whole number, without quotes",
    "int_from_float": "must be a whole number, without quotes",
    "float_type": "must be a number, without quotes",
    "float_parsing": "must be a number, without quotes",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text; put it in quotes",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_unicode": "must be valid Unicode text",
    "path_type": "must be a path",
    "tuple_type": "must be a list, such as [a, b]",
    "list_type": "must be a list, such as [a, b]",
    "dict_type": "must be a mapping of fields to values",
    "model_type": "must be a mapping of fields to values",
    "model_attributes_type": "must be a mapping of fields to values",
    "too_short": "needs at least {min_length} item(s)",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "union_tag_not_found": "needs a `kind`; choose an option of this group",
    "value_error": "{error}",
}
"""What is wrong and how to fix it, by pydantic's type of error."""


def explain(error: ErrorDetails, *, known: Iterable[str] = ()) -> str:
    """One pydantic error as `what is wrong; fix`.

    Args:
        known: Names that would be valid at this place, for the hint on an unknown one.
    """
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            name = str(error["loc"][-1])
            if is_secret(name):
                return "no file or override may hold a secret; put it into the environment"
            return f"no such field; {nearest(name, known)}"
        case "literal_error" | "enum" | "union_tag_invalid":
            expected = str(context.get("expected") or context.get("expected_tags"))
            choices = re.findall(r"'([^']*)'", expected)
            given = context.get("tag", error["input"])
            return f"no such choice; {nearest(str(given), choices)}"
        case "string_type" | "path_type" if error["input"] is None:
            return "is not set; give it a value"
        case kind if kind in _REASONS:
            return _REASONS[kind].format_map(context)
        case _:
            return error["msg"]


def sentence(field: str, error: ErrorDetails, *, known: Iterable[str] = ()) -> str:
    """One pydantic error as `field = value: what is wrong; fix`."""
    if error["type"] in ("missing", "union_tag_not_found"):
        return f"{field}: {explain(error, known=known)}"
    if error["type"] == "union_tag_invalid":
        return f"{field}.kind = {show(error['ctx']['tag'])}: {explain(error)}"
    value = show(error["input"], name=field.rpartition(".")[2])
    return f"{field} = {value}: {explain(error, known=known)}"
