"""What a task sentence asks for: which object, and where it has to go."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Relation(StrEnum):
    """Where the object ends up relative to the goal."""

    INSIDE = "inside"
    ON_TOP = "on_top"


@dataclass(frozen=True, slots=True)
class PickAndPlace:
    """One object, one goal, by the names the task gives them."""

    target: str
    goal: str
    relation: Relation


_PREPOSITIONS = {
    "inside of": Relation.INSIDE,
    "inside": Relation.INSIDE,
    "into": Relation.INSIDE,
    "in": Relation.INSIDE,
    "on top of": Relation.ON_TOP,
    "onto": Relation.ON_TOP,
    "upon": Relation.ON_TOP,
    "on": Relation.ON_TOP,
    "to": Relation.ON_TOP,
    "at": Relation.ON_TOP,
}
_PREPOSITION = "|".join(_PREPOSITIONS)
_POLITE = r"(?:(?:please|now|then)[ ,]+)*"
_PICK = r"(?:pick up|pick|grab|grasp|take|get|lift up|lift)"
_PLACE = r"(?:place|put|set|drop|lay|release|bring|move|carry|stack)"
_PICK_THEN_PLACE = re.compile(
    rf"{_POLITE}{_PICK} (?P<target>.+?)(?:,? and then|,? and|,? then|,|\.) {_PLACE} "
    rf"(?:it|that|this)(?: down| back)? (?P<preposition>{_PREPOSITION}) (?P<goal>.+)"
)
# The greedy target makes the last preposition the one that leads to the goal:
# "put the bowl on the stove on the plate" moves the bowl that stands on the stove.
_PLACE_ONLY = re.compile(
    rf"{_POLITE}{_PLACE} (?P<target>.+) (?P<preposition>{_PREPOSITION}) (?P<goal>.+)"
)
_ARTICLE = re.compile(r"(?:the|a|an|that|this|your|my) ")
_SEVERAL = re.compile(r"\b(?:and|both|all|each|every|two|three|them|then|or)\b|[,;.:?!]")
_BESIDE = re.compile(r"(?:left|right|front|back|side|rear|middle)\b(?: side)? of ")
_PRONOUN = re.compile(r"(?:it|that|this|there|here|one|them)")


def parse_task(sentence: str) -> PickAndPlace | None:
    """Read "pick up the X and place it in the Y" or "put the X on the Y" and their variants.

    Returns None for everything else: several objects, a place beside something, an articulated
    object, a question. A wrong guess would move the wrong thing.
    """
    text = " ".join(sentence.lower().split()).rstrip(" .!")
    match = _PICK_THEN_PLACE.fullmatch(text) or _PLACE_ONLY.fullmatch(text)
    if match is None:
        return None
    preposition = match["preposition"]
    target, goal = _name(match["target"]), _name(match["goal"])
    if not target or not goal or target == goal:
        return None
    return PickAndPlace(target, goal, _PREPOSITIONS[preposition])


def _name(phrase: str) -> str:
    """The phrase without its article; empty if it does not name one single thing."""
    name = _ARTICLE.sub("", phrase.strip(), count=1) if _ARTICLE.match(phrase) else phrase.strip()
    if _SEVERAL.search(name) or _BESIDE.match(name) or _PRONOUN.fullmatch(name):
        return ""
    return name if re.search(r"[^\W_]", name) else ""
