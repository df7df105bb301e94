"""A grasp candidate and a strategy's parameters -> world poses of the end effector.

End-effector frame: z points along the approach, y along the fingers' closing direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openeta_exp.domain.geometry import Array
from openeta_exp.domain.grasp_strategy import GraspHeight, Orientation
from openeta_exp.engine.geometry import (
    GraspPose,
    Region,
    euler_deg_from_matrix,
    extents_along,
    matrix_from_quat_xyzw,
)
from openeta_exp.ports.perception import Vector3

_DOWN = np.array([0.0, 0.0, -1.0])
_STRAIGHT_DOWN = np.diag([1.0, -1.0, -1.0])
"""An end effector that points down, for robots that report no orientation."""
_HORIZONTAL_MIN = 1e-6


class CompileError(ValueError):
    """The candidate cannot be used this way. `code` is stable.

    Attributes:
        code: `strategy_alignment_rejected` or `strategy_width_out_of_bounds`.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Pose:
    """World pose: metres, and degrees as R = Rz(yaw) Ry(pitch) Rx(roll)."""

    xyz_m: Vector3
    roll_pitch_yaw_deg: Vector3


@dataclass(frozen=True, slots=True, kw_only=True)
class GraspPlan:
    """Where to hover and where to close."""

    hover: Pose
    contact: Pose
    extents_m: Vector3


def compile_grasp(
    grasp: GraspPose,
    region: Region,
    *,
    eef_quat_xyzw: tuple[float, float, float, float] | None,
    orientation: Orientation,
    grasp_height: GraspHeight,
    approach_height_m: float,
    min_downward_alignment: float,
) -> GraspPlan:
    """Turn a candidate into poses.

    Args:
        eef_quat_xyzw: Present orientation; it settles which of two equal yaws is nearer, and is
            the gripper's own yaw for `top_down`.

    Raises:
        CompileError: The approach points too far from straight down.
    """
    if grasp.downward < min_downward_alignment:
        raise CompileError(
            f"the approach axis has a downward alignment of {grasp.downward:.2f}, less than "
            f"{min_downward_alignment:.2f}",
            code="strategy_alignment_rejected",
        )
    present = (
        np.diag([1.0, -1.0, -1.0])
        if eef_quat_xyzw is None
        else matrix_from_quat_xyzw(eef_quat_xyzw)
    )
    rotation = _eef_rotation(grasp, np.asarray(present), orientation)
    contact = _contact(grasp, region, orientation, grasp_height)
    hover = contact - rotation[:, 2] * approach_height_m
    angles = euler_deg_from_matrix(rotation)
    lengths = [extent.length_m for extent in extents_along(region, grasp.rotation)]
    return GraspPlan(
        hover=Pose(xyz_m=_vector(hover), roll_pitch_yaw_deg=angles),
        contact=Pose(xyz_m=_vector(contact), roll_pitch_yaw_deg=angles),
        extents_m=(lengths[0], lengths[1], lengths[2]),
    )


def _contact(
    grasp: GraspPose, region: Region, orientation: Orientation, height: GraspHeight
) -> Array:
    if orientation is Orientation.PRESERVE_CANDIDATE:
        return np.asarray(grasp.fingertips_m)
    top, bottom = region.max_m[2], region.min_m[2]
    reference = top if height.reference == "top" else (top + bottom) / 2
    z = max(reference + height.offset_m, bottom + height.floor_m)
    return np.array([grasp.position_m[0], grasp.position_m[1], z])


def _eef_rotation(grasp: GraspPose, present: Array, orientation: Orientation) -> Array:
    """Columns x, y, z of the end effector in the world."""
    candidate = np.asarray(grasp.rotation)
    match orientation:
        case Orientation.PRESERVE_CANDIDATE:
            approach, closing = candidate[:, 0], candidate[:, 1]
        case Orientation.TOP_DOWN_PRESERVE_YAW:
            approach, closing = _DOWN, candidate[:, 1]
        case Orientation.TOP_DOWN:
            approach, closing = _DOWN, present[:, 1]
    closing = closing - approach * float(closing @ approach)
    length = float(np.linalg.norm(closing))
    if length < _HORIZONTAL_MIN:
        raise CompileError(
            "the closing axis is parallel to the approach", code="strategy_alignment_rejected"
        )
    closing = closing / length
    if float(closing @ present[:, 1]) < 0:
        closing = -closing  # Fingers do not tell left from right: take the shorter turn.
    return np.column_stack([np.cross(closing, approach), closing, approach])


def _vector(values: Array) -> Vector3:
    x, y, z = (float(value) for value in values)
    return x, y, z
