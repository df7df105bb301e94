"""What a depth image says about the shape of one thing: its seen surface, top and outline.

World frame, metres, z up. Imported where it is used, because it needs numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openeta_exp.domain.observation import Intrinsics

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ImageT = TypeVar("_ImageT", bound=NDArray[Any])

TOP_BAND_M = 0.008
"""Thickness of what counts as the top: a can's rim and lid, but little of a sloping roof."""

_MAX_DEPTH_SLOPE = 5.0
"""Depth change per pixel width up to which two pixels may show one surface (79 degrees)."""

_SIDES = ((0, 1), (1, 0), (0, -1), (-1, 0))
_CORNERS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


class GeometryError(ValueError):
    """An image shows too little to measure.

    Attributes:
        code: Refusal code of the AnyGrasp contract.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """The seen side of one thing, world frame.

    Attributes:
        points_m: `[N, 3]`, one per trusted pixel, at pixel centres.
        outline_m: `[M, 3]`, half a pixel beyond the pixels at the border. Without them everything
            is one pixel too small, and shifted where only one border is a silhouette.
    """

    points_m: Array
    outline_m: Array

    @property
    def extended_m(self) -> Array:
        """`[N + M, 3]`: points and outline."""
        return np.concatenate([self.points_m, self.outline_m])


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A horizontal rectangle.

    Attributes:
        centre_xy_m: World x and y.
        short_m: Length of the shorter side.
        long_m: Length of the longer side.
        short_yaw_rad: Direction of the shorter side, from world x, in [-pi/2, pi/2).
    """

    centre_xy_m: tuple[float, float]
    short_m: float
    long_m: float
    short_yaw_rad: float


def seen_surface(
    mask: Mask,
    depth_m: NDArray[np.floating],
    intrinsics: Intrinsics,
    *,
    world_from_camera: ArrayLike,
) -> Surface:
    """The masked part of a depth image as a surface in the world.

    Args:
        mask: `[H, W]`.
        depth_m: `[H, W]` along the optical axis, 0 where unknown.
        intrinsics: See `points_in_camera`.
        world_from_camera: 4x4, OpenCV axes.

    Raises:
        GeometryError: Shapes differ, the mask is empty, or no masked pixel has a depth.
    """
    if mask.shape != depth_m.shape:
        raise GeometryError(
            f"mask is {mask.shape}, depth is {depth_m.shape} (rows, columns)",
            code="image_shape_mismatch",
        )
    if not mask.any():
        raise GeometryError("the mask selects no pixel", code="empty_target_mask")
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    window = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    part, depth = np.pad(mask[window], 1), np.pad(depth_m[window].astype(np.float64), 1)
    part &= depth > 0
    if not part.any():
        raise GeometryError(
            "no masked pixel has a depth", code="empty_point_cloud_after_depth_filter"
        )
    step_m = _MAX_DEPTH_SLOPE * depth / intrinsics.fx
    solid = _solid_pixels(part, depth, step_m)
    v, u = np.indices(part.shape)
    points = to_world(
        points_in_camera(u + columns[0] - 1, v + rows[0] - 1, depth, intrinsics=intrinsics),
        world_from_camera,
    )
    outline = [
        _half_a_pixel_beyond(points, solid, depth, step_m, side=side, focal_px=intrinsics.fx)
        for side in _SIDES
    ]
    return Surface(points_m=points[solid], outline_m=np.concatenate(outline))


def top_height_m(surface: Surface) -> float:
    """Height of the highest point, not counting up to three outliers."""
    z = surface.points_m[:, 2]
    rank = max(1, min(4, z.size // 20))
    return float(np.partition(z, -rank)[-rank])


def top_outline(surface: Surface, *, band_m: float = TOP_BAND_M) -> Array:
    """`[K, 2]` x and y of the surface within `band_m` below the top, outline included."""
    extended = surface.extended_m
    return extended[extended[:, 2] >= top_height_m(surface) - band_m, :2]


def smallest_rectangle(points_xy_m: Array) -> Rectangle:
    """The upright rectangle of least area around points, over all yaws.

    Around a round thing every yaw is as good as the next; its centre is then the mean over all
    of them, which is steadier than the centre at a yaw that pixel noise picked.
    """
    yaws = np.radians(np.arange(0.0, 90.0, 2.0))
    coarse = _boxes(points_xy_m, yaws)
    areas = coarse.area
    fine_yaws = yaws[int(np.argmin(areas))] + np.radians(np.arange(-2.0, 2.25, 0.25))
    fine = _boxes(points_xy_m, fine_yaws)
    best = int(np.argmin(fine.area))
    alike = areas <= 1.05 * fine.area[best]
    # A handful of neighbouring yaws is a corner being rounded by pixels, not a round thing.
    round_like = np.count_nonzero(alike) > alike.size // 2
    centre = coarse.centre[alike].mean(axis=0) if round_like else fine.centre[best]
    width, depth = (float(side) for side in fine.size[best])
    yaw = float(fine_yaws[best]) + (0.0 if width <= depth else np.pi / 2)
    return Rectangle(
        centre_xy_m=(float(centre[0]), float(centre[1])),
        short_m=min(width, depth),
        long_m=max(width, depth),
        short_yaw_rad=float((yaw + np.pi / 2) % np.pi - np.pi / 2),
    )


def points_in_camera(
    u: NDArray[np.integer], v: NDArray[np.integer], depth_m: Array, *, intrinsics: Intrinsics
) -> Array:
    """What pixels (column `u`, row `v`) at some depth show, `[..., 3]`, OpenCV frame.

    The principal point is read in continuous image coordinates: the centre of an image of width W
    is W / 2, and the middle of its first pixel is 0.5.
    """
    x = (u + 0.5 - intrinsics.cx) / intrinsics.fx
    y = (v + 0.5 - intrinsics.cy) / intrinsics.fy
    return np.stack([x * depth_m, y * depth_m, depth_m], axis=-1)


def to_world(points_m: Array, world_from_camera: ArrayLike) -> Array:
    """Points `[..., 3]` of the camera's OpenCV frame in the world."""
    pose = np.asarray(world_from_camera, dtype=np.float64)
    return points_m @ pose[:3, :3].T + pose[:3, 3]


def matrix_from_quat_xyzw(quat_xyzw: Sequence[float]) -> Array:
    """`[3, 3]` rotation.

    Raises:
        ValueError: If the quaternion has no direction.
    """
    quat = np.asarray(quat_xyzw, dtype=np.float64)
    norm = float(np.linalg.norm(quat))
    if not norm > 1e-9:
        raise ValueError("a quaternion of length zero is no rotation")
    x, y, z, w = quat / norm
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix_from_euler_deg(roll: float, pitch: float, yaw: float) -> Array:
    """`[3, 3]` rotation Rz(yaw) · Ry(pitch) · Rx(roll)."""
    (cr, cp, cy), (sr, sp, sy) = (f(np.radians([roll, pitch, yaw])) for f in (np.cos, np.sin))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def euler_deg_from_matrix(rotation: ArrayLike) -> tuple[float, float, float]:
    """Roll, pitch, yaw in degrees; roll is 0 by choice where pitch is ±90."""
    m = np.asarray(rotation, dtype=np.float64)
    level = float(np.hypot(m[0, 0], m[1, 0]))
    pitch = np.arctan2(-m[2, 0], level)
    if level > 1e-7:
        roll, yaw = np.arctan2(m[2, 1], m[2, 2]), np.arctan2(m[1, 0], m[0, 0])
    else:
        roll, yaw = 0.0, np.arctan2(-m[0, 1], m[1, 1])
    return float(np.degrees(roll)), float(np.degrees(pitch)), float(np.degrees(yaw))


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
    """Bounding boxes of one point set at several yaws: `[Y, 2]` each."""

    centre: Array
    size: Array

    @property
    def area(self) -> Array:
        # A micrometre each way keeps the order meaningful for points on one line.
        return np.asarray(np.prod(self.size + 1e-6, axis=1))


def _boxes(points_xy: Array, yaws: Array) -> _Boxes:
    cos, sin = np.cos(yaws), np.sin(yaws)
    along = np.outer(cos, points_xy[:, 0]) + np.outer(sin, points_xy[:, 1])
    across = np.outer(cos, points_xy[:, 1]) - np.outer(sin, points_xy[:, 0])
    a0, a1, b0, b1 = along.min(axis=1), along.max(axis=1), across.min(axis=1), across.max(axis=1)
    a, b = (a0 + a1) / 2, (b0 + b1) / 2
    return _Boxes(
        centre=np.stack([cos * a - sin * b, sin * a + cos * b], axis=1),
        size=np.stack([a1 - a0, b1 - b0], axis=1),
    )


def _beside(image: _ImageT, side: tuple[int, int]) -> _ImageT:
    """Every pixel's neighbour at `side` (rows, columns); the border must not matter."""
    neighbours: _ImageT = np.roll(image, (-side[0], -side[1]), axis=(0, 1))
    return neighbours


def _solid_pixels(part: Mask, depth: Array, step_m: Array) -> Mask:
    """Masked pixels that continue a surface.

    Dropped are speckles and pixels that mix two depths: pixels inside the mask with fewer than
    two neighbours at about their depth, pixels of its outermost ring with none inside. If nothing
    is left, as in a mask two pixels wide, every masked pixel is taken.
    """
    masked_depth = np.where(part, depth, np.inf)

    def continues(among: Array, side: tuple[int, int]) -> Mask:
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(_beside(among, side) - masked_depth) <= step_m)

    inside = np.logical_and.reduce([_beside(part, side) for side in _SIDES]) & part
    inside &= np.sum([continues(masked_depth, side) for side in _SIDES], axis=0) >= 2
    inner_depth = np.where(inside, depth, np.inf)
    ring = np.logical_or.reduce([continues(inner_depth, side) for side in (*_SIDES, *_CORNERS)])
    solid = inside | (part & ring)
    return solid if solid.any() else part


def _half_a_pixel_beyond(
    points: Array,
    solid: Mask,
    depth: Array,
    step_m: Array,
    *,
    side: tuple[int, int],
    focal_px: float,
) -> Array:
    """Where the surface ends beyond the border pixels towards `side`, half a pixel out.

    Continues the surface straight, so that a horizontal face grows in the horizontal and an
    upright one in the vertical.
    """
    back = (-side[0], -side[1])

    def joined(towards: tuple[int, int]) -> Mask:
        near = np.abs(_beside(depth, towards) - depth) <= step_m
        return np.asarray(solid & _beside(solid, towards) & near)

    border = solid & ~joined(side) & joined(back)
    half_step = 0.5 * (points - np.roll(points, side, axis=(0, 1)))[border]
    # Near a silhouette the surface falls away steeply; following it further would overshoot.
    longest = 2.0 * depth[border] / focal_px
    length = np.linalg.norm(half_step, axis=1)
    half_step *= np.minimum(1.0, longest / np.maximum(length, 1e-12))[:, None]
    return np.asarray(points[border] + half_step)
