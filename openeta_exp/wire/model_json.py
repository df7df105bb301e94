"""JSON objects in what a model wrote: between thoughts, code fences and prose."""

from __future__ import annotations

import json
import re
from collections.abc import Set

from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import check_json

MAX_OBJECTS = 100
"""How often reading is tried in one answer: an attempt may go through all that is left of it."""

_THOUGHT, _END_OF_THOUGHT = "<think>", "</think>"
_MARK = re.compile(r'<think>|</think>|\{(?P<json>\s*["}])?')
"""A brace can begin an object only if a name or its end comes next; others belong to prose."""
_BRACE = re.compile(r"[{}]")


class AnswerError(ValueError):
    """The text holds no object that can be read, or more than one that could be meant."""


def the_object(text: str, *, keys: Set[str]) -> JsonObject:
    """The one object that was asked for.

    Args:
        keys: It has at least one of them; objects that have none are prose.

    Raises:
        AnswerError: There is none, or there are several that say different things.
    """
    *others, meant = objects_with(text, keys=keys)
    if any(other != meant for other in others):
        raise AnswerError(
            "the answer holds several JSON objects that differ: answer with exactly one"
        )
    return meant


def objects_with(text: str, *, keys: Set[str]) -> list[JsonObject]:
    """Those objects of an answer that have one of the keys; all of them if none has.

    Raises:
        AnswerError: There is none, or the last one breaks off or is no JSON.
    """
    found = _objects(text)
    return [each for each in found if not keys.isdisjoint(each)] or found


def _objects(text: str) -> list[JsonObject]:
    """The outermost objects outside of thoughts, in their order.

    Objects within one that cannot be read are never taken for it: a call out of a broken batch is
    not what the model decided. A thought ends with its tag, also if nothing says where it began.
    """
    closings = _closings(text)
    found: list[JsonObject] = []
    flaw, tried, at = "", 0, 0
    while mark := _MARK.search(text, at):
        begin, at = mark.start(), mark.end()
        if mark[0] == _THOUGHT:
            end = text.find(_END_OF_THOUGHT, at)
            at = len(text) if end < 0 else end + len(_END_OF_THOUGHT)
        elif mark[0] == _END_OF_THOUGHT:
            found, flaw = [], ""
        elif mark["json"] is None:
            at = closings.get(begin, begin + 1)
        else:
            tried += 1
            if tried > MAX_OBJECTS:
                raise AnswerError(f"the answer holds more than {MAX_OBJECTS} JSON objects")
            try:
                value, at = _read(text, begin)
                found.append(value)
                flaw = ""
            except (ValueError, RecursionError) as error:
                flaw = str(error)
                at = closings.get(begin) or _after_thought(text, begin)
    if flaw:
        raise AnswerError(f"the answer is not valid JSON: {flaw}")
    if not found:
        raise AnswerError("answer with exactly one JSON object, its names in double quotes")
    return found


def _read(text: str, begin: int) -> tuple[JsonObject, int]:
    """The object that begins there, and where it ends.

    Raises:
        ValueError: It is no JSON, or none that can be kept.
        RecursionError: It is nested too deep.
    """
    value, end = _DECODER.raw_decode(text, begin)
    check_json(value)
    return value, end


def _after_thought(text: str, begin: int) -> int:
    """What an object that breaks off is followed by cannot be told from what it holds."""
    end = text.find(_END_OF_THOUGHT, begin)
    return len(text) if end < 0 else end


def _closings(text: str) -> dict[int, int]:
    """Behind which place each brace is closed; not those that never are. Strings are not known."""
    open_: list[int] = []
    closings: dict[int, int] = {}
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            open_.append(brace.start())
        elif open_:
            closings[open_.pop()] = brace.end()
    return closings


def _unique(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name is given twice, and nobody says which one counts")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)
