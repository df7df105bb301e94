"""Where a detection stands in the world, from its mask and the depth image of the same frame.

World frame, metres, z up. Needs numpy and Pillow, so it is imported where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from openeta_exp.domain.geometry import (
    Array,
    GeometryError,
    Rectangle,
    euler_deg_from_matrix,
    matrix_from_euler_deg,
    matrix_from_quat_xyzw,
    seen_surface,
    smallest_rectangle,
    top_height_m,
    top_outline,
)
from openeta_exp.domain.observation import Intrinsics
from openeta_exp.ports.perception import GraspCandidate, Matrix3, Vector3
from openeta_exp.wire.images import ImageError, decode_depth_m, decode_mask

__all__ = [
    "Extent",
    "GeometryError",
    "GraspPose",
    "Region",
    "euler_deg_from_matrix",
    "extents_along",
    "grasp_in_world",
    "matrix_from_euler_deg",
    "matrix_from_quat_xyzw",
    "measure",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region:
    """The seen part of one thing. Its back is not seen, so `max` and `min` may fall short of it.

    Attributes:
        points_m: `[N, 3]`, outline included.
        top_centre_m: Middle of the top surface, on its height. The best estimate of the thing's
            own middle: the top is seen from front to back, the sides only from the front.
        centre_m: Below `top_centre_m`, at half height.
        min_m: Smallest seen x, y and z.
        max_m: Largest seen x and y; the top's z.
        top: Smallest rectangle around the top surface.
        pixels: How many pixels were trusted.
    """

    points_m: Array
    centre_m: Vector3
    min_m: Vector3
    max_m: Vector3
    top_centre_m: Vector3
    top: Rectangle
    pixels: int


@dataclass(frozen=True, slots=True)
class Extent:
    """Range of a region along one axis through the world's origin, metres."""

    low_m: float
    high_m: float

    @property
    def length_m(self) -> float:
        return self.high_m - self.low_m


@dataclass(frozen=True, slots=True, kw_only=True)
class GraspPose:
    """A grasp candidate in the world.

    Attributes:
        position_m: The grasp centre.
        rotation: Columns: approach, closing, binormal axis.
        fingertips_m: Grasp centre moved by the candidate's depth along the approach axis.
    """

    position_m: Vector3
    rotation: Matrix3
    fingertips_m: Vector3

    @property
    def downward(self) -> float:
        """Cosine between approach axis and straight down."""
        return -self.rotation[2][0]

    @property
    def closing_yaw_deg(self) -> float:
        """Yaw of the closing axis from world x, in [-90, 90): the two fingers are alike."""
        return _half_turn_deg(self.rotation[0][1], self.rotation[1][1])


def measure(
    mask_png: bytes,
    depth_png: bytes,
    intrinsics: Intrinsics,
    *,
    world_from_camera: ArrayLike,
) -> Region:
    """Measure one detection.

    Pixels at the border of the mask whose depth does not continue the thing's surface are left
    out, and so are single pixels that stick out of it.

    Raises:
        GeometryError: An image cannot be read, mask and depth differ in size, or no masked pixel
            has a depth; with a code of the perception contract.
    """
    try:
        mask = decode_mask(mask_png)
    except ImageError as error:
        raise GeometryError(str(error), code="target_mask_decode_failed") from error
    try:
        depth_m = decode_depth_m(depth_png)
    except ImageError as error:
        raise GeometryError(str(error), code="depth_decode_failed") from error
    surface = seen_surface(mask, depth_m, intrinsics, world_from_camera=world_from_camera)
    points = surface.extended_m
    top = smallest_rectangle(top_outline(surface))
    top_z, bottom_z = top_height_m(surface), float(surface.points_m[:, 2].min())
    x, y = top.centre_xy_m
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    return Region(
        points_m=points,
        centre_m=(x, y, (top_z + bottom_z) / 2),
        min_m=(float(low[0]), float(low[1]), bottom_z),
        max_m=(float(high[0]), float(high[1]), top_z),
        top_centre_m=(x, y, top_z),
        top=top,
        pixels=len(surface.points_m),
    )


def extents_along(region: Region, rotation: ArrayLike) -> tuple[Extent, Extent, Extent]:
    """Ranges of the region along the columns of a rotation, in their order."""
    along = region.points_m @ np.asarray(rotation, dtype=np.float64)
    low, high = along.min(axis=0), along.max(axis=0)
    first, second, third = (Extent(float(a), float(b)) for a, b in zip(low, high, strict=True))
    return first, second, third


def grasp_in_world(candidate: GraspCandidate, world_from_camera: ArrayLike) -> GraspPose:
    """The candidate's pose once the camera's pose is known."""
    pose = np.asarray(world_from_camera, dtype=np.float64)
    rotation = pose[:3, :3] @ np.asarray(candidate.rotation)
    position = pose[:3, :3] @ np.asarray(candidate.translation_m) + pose[:3, 3]
    fingertips = position + candidate.depth_m * rotation[:, 0]
    rows = [_vector(row) for row in rotation]
    return GraspPose(
        position_m=_vector(position),
        rotation=(rows[0], rows[1], rows[2]),
        fingertips_m=_vector(fingertips),
    )


def _vector(values: Array) -> Vector3:
    x, y, z = (float(value) for value in values)
    return x, y, z


def _half_turn_deg(x: float, y: float) -> float:
    return float((np.degrees(np.arctan2(y, x)) + 90.0) % 180.0 - 90.0)
