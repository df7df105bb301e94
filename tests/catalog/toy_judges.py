"""Predicates and metric extractors of a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def distance(state: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, float]:
    return {"distance": state["final_distance"] * context["args"].get("scale", 1.0)}


def silent(state: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, float]:
    return {}


def closer_than(state: Mapping[str, Any], context: Mapping[str, Any]) -> bool:
    return bool(state["info"]["distance"] < context["args"]["limit"])
