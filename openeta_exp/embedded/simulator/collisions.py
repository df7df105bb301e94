"""Whether the hand or arm, not the fingers, is pressed into something."""

from __future__ import annotations

from collections.abc import Iterable

import mujoco
import numpy as np

from openeta_exp.embedded.simulator.replies import Collision

_PENETRATION_M = 0.005


class CollisionWatch:
    """Finds the deepest contact of the watched bodies with anything that is not the robot."""

    def __init__(
        self, model: mujoco.MjModel, *, watched: Iterable[int], robot: Iterable[int]
    ) -> None:
        self._body_of_geom = np.asarray(model.geom_bodyid)
        self._watched = np.zeros(model.nbody, dtype=bool)
        self._watched[list(watched)] = True
        self._robot = np.zeros(model.nbody, dtype=bool)
        self._robot[list(robot)] = True
        self._names = [model.body(index).name for index in range(model.nbody)]

    def check(self, data: mujoco.MjData) -> Collision:
        if data.ncon == 0:
            return Collision(detected=False)
        pairs = self._body_of_geom[data.contact.geom]
        hits = (self._watched[pairs[:, 0]] & ~self._robot[pairs[:, 1]]) | (
            self._watched[pairs[:, 1]] & ~self._robot[pairs[:, 0]]
        )
        depths = np.where(hits, -data.contact.dist, 0.0)
        deepest = int(depths.argmax())
        if depths[deepest] <= _PENETRATION_M:
            return Collision(detected=False)
        first, second = (self._names[body] for body in pairs[deepest])
        depth_m = float(depths[deepest])
        return Collision(
            detected=True,
            message=f"{first} is {depth_m * 1000:.1f} mm inside {second}",
            max_world_penetration=depth_m,
            world_collision=True,
        )
