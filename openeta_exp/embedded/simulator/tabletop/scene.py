"""The tabletop scene itself: placements, physics and what counts as placed. Needs only mujoco."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from openeta_exp.embedded.simulator.backend import Array, HandPose, Joints
from openeta_exp.embedded.simulator.tabletop.mjcf import (
    BASKET_CENTER,
    BASKET_INNER_HALF,
    BASKET_WALL_HEIGHT,
    FINGER_TRAVEL,
    SHAPE_BY_CATEGORY,
    SHAPES,
    SHELF_CENTER,
    SHELF_HALF,
    SHELF_TOP,
    Shape,
    scene_xml,
)

SUBSTEPS = 25
METRES_PER_UNIT = 0.02
RADIANS_PER_UNIT = 0.15
HOME = (-0.10, 0.0, 0.30)
_CLOSING_M = 0.004
"""How far a finger can travel per control step: ten to close from fully open."""
_OPENING_M = 0.008
_SQUEEZE_M = 0.02
"""How far a blocked finger's set point runs ahead: full force, but no delay when letting go."""
_LEASH_M = 0.03
"""How far the commanded position may run ahead of the hand; bounds the push when blocked."""
_LEASH_RAD = 0.3
_REGION = ((-0.13, 0.13), (-0.13, 0.13))
"""Where object centres are drawn, x and y."""
_CLEAR_Y = 0.19
"""Nothing drawn reaches further: the basket and the shelf begin there."""
_NEIGHBOUR_GAP_M = (0.012, 0.024)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an object stands: metres and radians about z."""

    x: float
    y: float
    yaw: float


class TabletopScene:
    """One compiled scene, restarted and stepped in the calling thread.

    The hand is position controlled: a command moves a set point, a stiff but force-limited
    drive follows it, and the fingers have a speed and a force limit.
    """

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(scene_xml())
        self.data = mujoco.MjData(self.model)
        self.object_names = tuple(f"{shape.category}_1" for shape in SHAPES)
        self._fingers = frozenset(
            self.model.body(f"{side}_finger").id for side in ("left", "right")
        )
        self._grip = self.model.site("grip").id
        self._hand = self.model.body("hand").id
        self._setpoint = np.zeros(6)
        self._finger_setpoint = FINGER_TRAVEL
        self.restart()

    def restart(self) -> None:
        """Robot home and open; every object parked upright outside the workspace of a task."""
        mujoco.mj_resetData(self.model, self.data)
        self._setpoint = np.array([*HOME, 0.0, 0.0, 0.0])
        self._finger_setpoint = FINGER_TRAVEL
        self.data.qpos[:6] = self._setpoint
        self.data.qpos[6:8] = FINGER_TRAVEL
        for index, name in enumerate(self.object_names):
            self.place(name, -0.45, -0.4 + 0.16 * index)
        self._command()

    def scatter(self, seed: int, *, target: str) -> Mapping[str, Placement]:
        """Restart with placements drawn from `seed`; a neighbour crowds the target.

        The neighbour stands a finger's width away, on a side drawn from the seed, so that a
        grasp with an unlucky yaw lands on it. Two more objects stand anywhere; the others
        stay parked.
        """
        rng = np.random.default_rng(seed)
        self.restart()
        names = [name for name in self.object_names if name != target]
        others = [names[index] for index in rng.permutation(len(names))[:3]]
        placed: dict[str, Placement] = {}
        while len(placed) < 4:
            placed = self._draw(rng, target, others)
        for name, spot in placed.items():
            self.place(name, spot.x, spot.y, yaw=spot.yaw)
        return placed

    def place(self, name: str, x: float, y: float, *, yaw: float = 0.0) -> None:
        """Stand an object on the table at rest.

        Raises:
            KeyError: If there is no such object.
        """
        start = self.model.joint(name).qposadr[0]
        velocity = self.model.joint(name).dofadr[0]
        half_height = _shape(name).half_extents[2]
        self.data.qpos[start : start + 3] = (x, y, half_height + 1e-4)
        self.data.qpos[start + 3 : start + 7] = (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))
        self.data.qvel[velocity : velocity + 6] = 0.0
        mujoco.mj_forward(self.model, self.data)

    def step(self, action: Array) -> None:
        """One control step: 25 physics steps of 2 ms towards the commanded set point."""
        moved = self._setpoint[:3] + np.clip(action[:3], -1, 1) * METRES_PER_UNIT
        here = self.data.qpos[:3]
        self._setpoint[:3] = np.clip(moved, here - _LEASH_M, here + _LEASH_M)
        self._turn(np.clip(action[3:6], -1, 1) * RADIANS_PER_UNIT)
        self._finger_setpoint = self._next_finger_setpoint(float(action[6]))
        self._command()
        mujoco.mj_step(self.model, self.data, nstep=SUBSTEPS)

    def hand_pose(self) -> HandPose:
        return HandPose(
            xyz=self.data.site_xpos[self._grip].copy(),
            quat_wxyz=self.data.xquat[self._hand].copy(),
        )

    def openness(self) -> float:
        return float(np.clip(self.data.qpos[6:8].mean() / FINGER_TRAVEL, 0.0, 1.0))

    def joints(self) -> Joints:
        return Joints(
            positions=tuple(float(q) for q in self.data.qpos[:6]),
            velocities=tuple(float(v) for v in self.data.qvel[:6]),
        )

    def position(self, name: str) -> Array:
        """`[3]` metres, centre of the object."""
        return np.array(self.data.body(name).xpos)

    def held(self, name: str) -> bool:
        """Whether a finger touches the object."""
        body = self.model.body(name).id
        bodies = self.model.geom_bodyid[self.data.contact.geom]
        return any(body in pair and not self._fingers.isdisjoint(pair) for pair in bodies.tolist())

    def in_basket(self, name: str) -> bool:
        """Whether the object's centre is inside the basket and nothing holds it."""
        x, y, z = self.position(name)
        inside = max(abs(x - BASKET_CENTER[0]), abs(y - BASKET_CENTER[1])) < BASKET_INNER_HALF
        return bool(inside and 0.0 < z < BASKET_WALL_HEIGHT and not self.held(name))

    def on_shelf(self, name: str) -> bool:
        """Whether the object stands upright on the board and nothing holds it."""
        x, y, z = self.position(name)
        over = abs(x - SHELF_CENTER[0]) < SHELF_HALF[0] and abs(y - SHELF_CENTER[1]) < SHELF_HALF[1]
        resting = abs(z - SHELF_TOP - _shape(name).half_extents[2]) < 0.01
        upright = float(self.data.body(name).xmat[8]) > 0.9
        return bool(over and resting and upright and not self.held(name))

    def _draw(
        self, rng: np.random.Generator, target: str, others: list[str]
    ) -> dict[str, Placement]:
        """One attempt; shorter than four if something did not fit."""
        first = Placement(
            float(rng.uniform(-0.09, 0.09)),
            float(rng.uniform(-0.08, 0.08)),
            float(rng.uniform(-np.pi / 2, np.pi / 2)),
        )
        placed = {target: first}
        for index, name in enumerate(others):
            reach = _shape(target).radius + _shape(name).radius
            bearing = float(rng.uniform(-np.pi, np.pi))
            gap = float(rng.uniform(*_NEIGHBOUR_GAP_M))
            spot = Placement(
                float(rng.uniform(*_REGION[0])),
                float(rng.uniform(*_REGION[1])),
                float(rng.uniform(-np.pi / 2, np.pi / 2)),
            )
            if index == 0:
                distance = reach + gap
                spot = Placement(
                    first.x + distance * float(np.cos(bearing)),
                    first.y + distance * float(np.sin(bearing)),
                    spot.yaw,
                )
            if self._fits(name, spot, placed, margin=0.0 if index == 0 else 0.05):
                placed[name] = spot
        return placed

    def _fits(
        self, name: str, spot: Placement, placed: Mapping[str, Placement], *, margin: float
    ) -> bool:
        inside = abs(spot.x) < 0.19 and abs(spot.y) + _shape(name).radius < _CLEAR_Y
        return inside and all(
            np.hypot(spot.x - other.x, spot.y - other.y)
            > _shape(name).radius + _shape(taken).radius + margin
            for taken, other in placed.items()
        )

    def _turn(self, rotation: Array) -> None:
        """Move the hinge set points by a world-frame rotation vector."""
        if not rotation.any():
            return
        yaw, pitch, roll = self._setpoint[3:6]
        half = [(np.cos(a / 2), np.sin(a / 2)) for a in (yaw, pitch, roll)]
        quats = [
            np.array([half[0][0], 0, 0, half[0][1]]),
            np.array([half[1][0], 0, half[1][1], 0]),
            np.array([half[2][0], half[2][1], 0, 0]),
        ]
        current, turned, delta = np.empty(4), np.empty(4), np.empty(4)
        mujoco.mju_mulQuat(current, quats[0], quats[1])
        mujoco.mju_mulQuat(current, current.copy(), quats[2])
        angle = float(np.linalg.norm(rotation))
        mujoco.mju_axisAngle2Quat(delta, rotation / angle, angle)
        mujoco.mju_mulQuat(turned, delta, current)
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, turned)
        m = matrix.reshape(3, 3)
        wanted = np.array(
            [
                np.arctan2(m[1, 0], m[0, 0]),
                np.arcsin(np.clip(-m[2, 0], -1, 1)),
                np.arctan2(m[2, 1], m[2, 2]),
            ]
        )
        # The same yaw, on the turn nearest to where the joint is.
        wanted[0] += 2 * np.pi * np.round((yaw - wanted[0]) / (2 * np.pi))
        here = self.data.qpos[3:6]
        low, high = self.model.jnt_range[3:6, 0], self.model.jnt_range[3:6, 1]
        self._setpoint[3:6] = np.clip(
            np.clip(wanted, here - _LEASH_RAD, here + _LEASH_RAD), low, high
        )

    def _next_finger_setpoint(self, command: float) -> float:
        here = float(self.data.qpos[6:8].mean())
        if command > 0:
            ahead = max(self._finger_setpoint - _CLOSING_M, here - _SQUEEZE_M)
        elif command < 0:
            ahead = min(self._finger_setpoint + _OPENING_M, here + _SQUEEZE_M)
        else:
            ahead = self._finger_setpoint
        return float(np.clip(ahead, 0.0, FINGER_TRAVEL))

    def _command(self) -> None:
        self.data.ctrl[:6] = self._setpoint
        self.data.ctrl[6:8] = self._finger_setpoint
        mujoco.mj_forward(self.model, self.data)


def _shape(name: str) -> Shape:
    return SHAPE_BY_CATEGORY[name.rsplit("_", 1)[0]]
