"""A scripted policy for the tabletop that is told where things are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

BASKET = (0.02, 0.29)


class CanToBasket:
    """Grasps the can from above and drops it into the basket."""

    requires = ("states", "objects.can_1")

    def __init__(self, gripper: float = 1.0) -> None:
        self.gripper = gripper
        self.reset({})

    def reset(self, task: Mapping[str, Any]) -> None:
        self.stage, self.held = 0, 0
        self.can: Any = None

    def act(self, observation: Mapping[str, Any]) -> Any:
        here = np.asarray(observation["states"][:3], dtype=np.float64)
        if self.can is None:
            self.can = np.asarray(observation["objects"]["can_1"], dtype=np.float64)
        x, y, _ = self.can
        way = (
            ((x, y, 0.20), -1.0),
            ((x, y, 0.072), -1.0),
            None,
            ((x, y, 0.30), 1.0),
            ((*BASKET, 0.30), 1.0),
        )
        if self.stage >= len(way):
            return np.array([0, 0, 0, 0, 0, 0, -1.0])
        point = way[self.stage]
        if point is None:
            self.held += 1
            self.stage += self.held >= 12
            return np.array([0, 0, 0, 0, 0, 0, self.gripper])
        goal, gripper = point
        gap = np.asarray(goal) - here
        self.stage += bool(np.abs(gap).max() < 0.006)
        return np.array([*np.clip(35 * gap, -1, 1), 0, 0, 0, gripper])


def wave(observation: Mapping[str, Any]) -> Any:
    """Moves a little; needs nothing."""
    return np.array([0.1, 0, 0, 0, 0, 0, 0])
