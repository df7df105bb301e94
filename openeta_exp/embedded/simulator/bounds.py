"""The smallest upright box around a body's collision geometry, for privileged controllers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import mujoco
import numpy as np

from openeta_exp.embedded.simulator.backend import Array

_YAWS = np.radians(np.arange(0.0, 90.0, 1.0))


@dataclass(frozen=True, slots=True)
class Bounds:
    """An upright box in the world frame.

    Attributes:
        center: `[3]` metres.
        size: `[3]` metres along the box's own axes; x is at least y.
        yaw_rad: Of the box about world z, in (-pi/2, pi/2].
    """

    center: Array
    size: Array
    yaw_rad: float


def upright_bounds(points: Array) -> Bounds:
    """The box of smallest footprint, over yaws a degree apart, around `[N, 3]` points."""
    cos, sin = np.cos(_YAWS), np.sin(_YAWS)
    along = np.outer(points[:, 0], cos) + np.outer(points[:, 1], sin)
    across = np.outer(points[:, 1], cos) - np.outer(points[:, 0], sin)
    lengths, widths = np.ptp(along, axis=0), np.ptp(across, axis=0)
    best = int(np.argmin(lengths * widths))
    u = (along[:, best].min() + along[:, best].max()) / 2
    v = (across[:, best].min() + across[:, best].max()) / 2
    x, y = u * cos[best] - v * sin[best], u * sin[best] + v * cos[best]
    low, high = points[:, 2].min(), points[:, 2].max()
    length, width, yaw = float(lengths[best]), float(widths[best]), float(_YAWS[best])
    if width > length:
        length, width, yaw = width, length, yaw + np.pi / 2
    if yaw > np.pi / 2:
        yaw -= np.pi
    return Bounds(
        center=np.array([x, y, (low + high) / 2]),
        size=np.array([length, width, high - low]),
        yaw_rad=yaw,
    )


class BodyShapes:
    """Collision vertices of bodies, in their own frames, computed once per model."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._vertices = lru_cache(maxsize=None)(self._read)

    def bounds(self, data: mujoco.MjData, body: int) -> Bounds | None:
        """None if nothing of the body can be touched."""
        local = self._vertices(body)
        if local.size == 0:
            return None
        return upright_bounds(local @ data.xmat[body].reshape(3, 3).T + data.xpos[body])

    def _read(self, body: int) -> Array:
        """`[N, 3]` vertices of the body and everything fixed to it, in its frame."""
        clouds = []
        for geom in range(self._model.ngeom):
            if self._model.geom_contype[geom] == 0 and self._model.geom_conaffinity[geom] == 0:
                continue
            offset, turn = _pose_in(self._model, int(self._model.geom_bodyid[geom]), body)
            if offset is None or turn is None:
                continue
            rotation = np.empty(9)
            mujoco.mju_quat2Mat(rotation, self._model.geom_quat[geom])
            points = _geom_vertices(self._model, geom) @ rotation.reshape(3, 3).T
            clouds.append((points + self._model.geom_pos[geom]) @ turn.T + offset)
        return np.concatenate(clouds) if clouds else np.empty((0, 3))


def _pose_in(
    model: mujoco.MjModel, body: int, ancestor: int
) -> tuple[Array, Array] | tuple[None, None]:
    """Pose of a body in an ancestor's frame, as it was built; nothing if it is no descendant."""
    offset, turn = np.zeros(3), np.eye(3)
    while body != ancestor:
        if body == 0:
            return None, None
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, model.body_quat[body])
        matrix = rotation.reshape(3, 3)
        offset, turn = matrix @ offset + model.body_pos[body], matrix @ turn
        body = int(model.body_parentid[body])
    return offset, turn


def _geom_vertices(model: mujoco.MjModel, geom: int) -> Array:
    """`[N, 3]` points whose hull is the geom, in its frame; round ones are sampled."""
    size = model.geom_size[geom]
    kind = mujoco.mjtGeom(int(model.geom_type[geom]))
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        start = model.mesh_vertadr[mesh]
        return np.array(model.mesh_vert[start : start + model.mesh_vertnum[mesh]], dtype=np.float64)
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if kind in (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE):
        half = size[1] + (size[0] if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0)
        rim = circle * size[0]
        return np.concatenate([np.c_[rim, np.full(24, sign * half)] for sign in (-1.0, 1.0)])
    half_extents = np.full(3, size[0]) if kind == mujoco.mjtGeom.mjGEOM_SPHERE else size
    corners = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
    return np.asarray(corners * half_extents)
