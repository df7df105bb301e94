"""Which family of shapes a name stands for, to choose a grasp strategy by."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openeta_exp.domain.grasp_strategy import GeometryFamily, GraspStrategy

_WORDS = (
    (GeometryFamily.DRAWER_HANDLE, {"drawer"}),
    (GeometryFamily.ARTICULATED_HANDLE, {"handle", "door", "knob"}),
    (GeometryFamily.UPRIGHT_CAN, {"can", "soup", "tin", "cylinder", "sauce"}),
    (GeometryFamily.UPRIGHT_BOTTLE, {"bottle", "ketchup", "dressing", "wine"}),
    (
        GeometryFamily.BOXED_ITEM,
        {"box", "cheese", "butter", "pudding", "milk", "juice", "carton", "cube", "block"},
    ),
    (GeometryFamily.BOWL, {"bowl"}),
    (GeometryFamily.APPLE, {"apple", "ball", "orange"}),
)
_BOTTLED = re.compile(r"\b(?:bbq|barbecue) sauce\b")


def family_of(name: str) -> GeometryFamily:
    """A guess from the words of the name; `unknown` if none of them says anything."""
    if _BOTTLED.search(name):
        return GeometryFamily.UPRIGHT_BOTTLE
    words = set(re.findall(r"[a-z]+", name.lower()))
    return next((family for family, known in _WORDS if known & words), GeometryFamily.UNKNOWN)


def first_fitting(strategies: Sequence[GraspStrategy], name: str) -> GraspStrategy | None:
    """The first strategy that is meant for any shape, or for the shape of that name."""
    family = family_of(name)
    for strategy in strategies:
        families = strategy.automatic_activation.target_geometry_families
        if not families or family in families:
            return strategy
    return None
