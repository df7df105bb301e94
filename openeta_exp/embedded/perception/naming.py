"""How well a phrase names a thing: words of the phrase against words of the thing's name."""

from __future__ import annotations

import re

_NOISE = frozenset({"a", "an", "the", "this", "that", "of", "its", "one", "some", "please"})
_RELATIONS = frozenset(
    {
        "above",
        "against",
        "at",
        "behind",
        "below",
        "beside",
        "between",
        "by",
        "from",
        "in",
        "inside",
        "into",
        "near",
        "next",
        "on",
        "onto",
        "over",
        "to",
        "under",
        "with",
        "which",
        "left",
        "right",
    }
)
_EXACT, _CONTAINED, _CONTAINED_SPAN, _OVERLAP = 0.98, 0.6, 0.35, 0.49


def words(phrase: str) -> tuple[str, ...]:
    """Lower-case words without articles, instance numbers and plural s."""
    found = re.findall(r"[^\W\d_]+", phrase.lower())
    return tuple(_singular(word) for word in found if word not in _NOISE)


def referent(prompt: str) -> tuple[str, ...]:
    """Words of the thing itself: `black bowl` in `the black bowl next to the plate`."""
    found = words(prompt)
    for at, word in enumerate(found):
        if word in _RELATIONS and at > 0:
            return found[:at]
    return found


def match(prompt: str, names: tuple[str, ...]) -> float:
    """Score in [0, 1] of the best of a thing's names.

    0.98 if a name says the same words; 0.6 and more if one's words are all among the other's and
    they mean the same kind of thing (`soup`, `alphabet soup can`); below 0.5, the usual threshold,
    if they merely share words (`bbq sauce` for `tomato sauce`).
    """
    wanted = referent(prompt)
    return max((_alike(wanted, words(name)) for name in names), default=0.0)


def _alike(wanted: tuple[str, ...], name: tuple[str, ...]) -> float:
    asked, known = frozenset(wanted), frozenset(name)
    shared = len(asked & known)
    if not shared:
        return 0.0
    if asked == known:
        return _EXACT
    similarity = 2 * shared / (len(asked) + len(known))
    if asked <= known:
        # `cream` does not ask for a cream cheese as much as `cheese` does.
        head_bonus = 0.0 if wanted[-1] == name[-1] else -0.1
        return _CONTAINED + _CONTAINED_SPAN * similarity + head_bonus
    if known <= asked:
        return _CONTAINED + _CONTAINED_SPAN * similarity
    return _OVERLAP * similarity


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
