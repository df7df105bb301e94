"""Depth images of boxes and cylinders on a table, ray-traced, with known truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openeta_exp.domain.geometry import Array, Mask
from openeta_exp.domain.observation import Intrinsics, Matrix4

SIZE_PX = 256
INTRINSICS = Intrinsics(fx=309.0, fy=309.0, cx=SIZE_PX / 2, cy=SIZE_PX / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solid:
    """An upright box, or a cylinder where `round`; metres, standing on z = 0.

    Attributes:
        width_m: Side along its own x, or diameter.
        length_m: Side along its own y.
    """

    x_m: float
    y_m: float
    width_m: float
    length_m: float
    height_m: float
    yaw_deg: float = 0.0
    round: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What the camera sees: `labels` is 0 for the table and 1, 2, ... for the solids."""

    depth_m: NDArray[np.float32]
    labels: NDArray[np.int32]
    world_from_camera: Matrix4

    def mask(self, label: int = 1) -> Mask:
        return np.asarray(self.labels == label)


def looking_from(eye: tuple[float, float, float], at: tuple[float, float, float]) -> Matrix4:
    """Camera pose with image x horizontal, OpenCV axes."""
    position = np.array(eye)
    forward = np.array(at) - position
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    if np.linalg.norm(right) < 1e-9:
        right = np.array([0.0, 1.0, 0.0])
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    pose[:3, 3] = position
    a, b, c, d = (tuple(float(v) for v in row) for row in pose)
    return (a, b, c, d)  # type: ignore[return-value]


ACROSS_THE_TABLE = looking_from((0.9, 0.0, 0.65), (0.0, 0.0, 0.06))
"""Where LIBERO's agentview stands: about a metre away, 32 degrees above the horizon."""


def draw(*solids: Solid, world_from_camera: Matrix4 = ACROSS_THE_TABLE) -> Scene:
    pose = np.asarray(world_from_camera)
    v, u = np.indices((SIZE_PX, SIZE_PX))
    rays = np.stack(
        [
            (u + 0.5 - INTRINSICS.cx) / INTRINSICS.fx,
            (v + 0.5 - INTRINSICS.cy) / INTRINSICS.fy,
            np.ones(u.shape),
        ],
        axis=-1,
    )
    directions, origin = rays @ pose[:3, :3].T, pose[:3, 3]
    with np.errstate(divide="ignore", invalid="ignore"):
        nearest = np.where(directions[..., 2] < 0, -origin[2] / directions[..., 2], np.inf)
        labels = np.zeros(nearest.shape, dtype=np.int32)
        for label, solid in enumerate(solids, start=1):
            distance = _distance(solid, origin, directions)
            labels = np.where(distance < nearest, label, labels).astype(np.int32)
            nearest = np.minimum(distance, nearest)
    # Optical-axis depth, because every ray has z = 1; a whole number of millimetres as on the wire.
    millimetres = np.where(np.isfinite(nearest) & (nearest < 60), np.round(nearest * 1000), 0)
    return Scene((millimetres / 1000).astype(np.float32), labels, world_from_camera)


def _distance(solid: Solid, origin: Array, directions: Array) -> Array:
    """Ray parameter of the first hit, infinite where the ray misses."""
    angle = np.radians(solid.yaw_deg)
    turn = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    o = (origin - [solid.x_m, solid.y_m, solid.height_m / 2]) @ turn
    d = directions @ turn
    half = np.array([solid.width_m, solid.length_m, solid.height_m]) / 2
    ends = np.stack([(-half - o) / d, (half - o) / d])
    enter, leave = ends.min(axis=0), ends.max(axis=0)
    if solid.round:
        a = d[..., 0] ** 2 + d[..., 1] ** 2
        b = o[0] * d[..., 0] + o[1] * d[..., 1]
        root = np.sqrt(b**2 - a * (o[0] ** 2 + o[1] ** 2 - half[0] ** 2))
        first = np.fmax((-b - root) / a, enter[..., 2])
        last = np.fmin((-b + root) / a, leave[..., 2])
        return np.where(np.isfinite(root) & (first <= last) & (first > 0), first, np.inf)
    first, last = enter.max(axis=-1), leave.min(axis=-1)
    return np.where((first <= last) & (first > 0), first, np.inf)
