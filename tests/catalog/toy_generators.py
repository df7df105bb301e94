"""Generators and filters of a user's own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any


def diagonal(params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    return [{name: float(seed + at) for name in params} for at in range(3)]


def moody(params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    return [{"x": random.random()}]


def infinite(params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    return [{"x": float("inf")}]


def broken(params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    raise ZeroDivisionError("oops")


def doubled(params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    return [{"x": 1.0}, {"x": 1.0}, {"x": 1}]


def right_half(scenario: Mapping[str, Any]) -> bool:
    return bool(scenario["x"] >= 0)


def nothing(scenario: Mapping[str, Any]) -> bool:
    return False
