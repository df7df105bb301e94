"""Rotations between the forms of the tool contract, on MuJoCo's own functions.

Quaternions here are wxyz, MuJoCo's order; the wire has xyzw and is converted at its edge.
Euler angles are degrees with rotation = Rz(yaw) · Ry(pitch) · Rx(roll).
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from openeta_exp.embedded.simulator.backend import Array


def quat_from_euler_deg(roll: float, pitch: float, yaw: float) -> Array:
    """`[4]` wxyz."""
    quat = np.empty(4)
    mujoco.mju_euler2Quat(quat, np.radians([roll, pitch, yaw]), "XYZ")
    return quat


def quat_from_xyzw(xyzw: Sequence[float]) -> Array:
    """`[4]` wxyz, normalised.

    Raises:
        ValueError: If the quaternion has no direction.
    """
    quat = np.array([xyzw[3], xyzw[0], xyzw[1], xyzw[2]], dtype=np.float64)
    norm = float(np.linalg.norm(quat))
    if norm < 1e-9:
        raise ValueError("quat_xyzw is zero")
    return quat / norm


def quat_from_matrix(matrix: Sequence[Sequence[float]] | Array) -> Array:
    """`[4]` wxyz.

    Raises:
        ValueError: If the matrix is not a rotation within 1e-3.
    """
    rows = np.asarray(matrix, dtype=np.float64).reshape(3, 3)
    orthogonal = np.allclose(rows @ rows.T, np.eye(3), atol=1e-3)
    if not orthogonal or float(np.linalg.det(rows)) < 0:
        raise ValueError("rotation_matrix is not a rotation")
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, rows.ravel())
    return quat


def matrix_from_quat(quat_wxyz: Array) -> Array:
    """`[3, 3]`."""
    flat = np.empty(9)
    mujoco.mju_quat2Mat(flat, quat_wxyz)
    return flat.reshape(3, 3)


def euler_deg_from_quat(quat_wxyz: Array) -> tuple[float, float, float]:
    """Roll, pitch, yaw in degrees; roll is 0 by choice where pitch is ±90."""
    m = matrix_from_quat(quat_wxyz)
    pitch = float(np.arcsin(np.clip(-m[2, 0], -1.0, 1.0)))
    if abs(m[2, 0]) < 1.0 - 1e-9:
        roll = float(np.arctan2(m[2, 1], m[2, 2]))
        yaw = float(np.arctan2(m[1, 0], m[0, 0]))
    else:
        roll = 0.0
        yaw = float(np.arctan2(-m[0, 1], m[1, 1]))
    return tuple(float(np.degrees(angle)) for angle in (roll, pitch, yaw))  # type: ignore[return-value]


def rotation_between(target_wxyz: Array, current_wxyz: Array) -> Array:
    """`[3]` rotation vector in the world frame, radians, that turns `current` into `target`."""
    inverse, delta, vector = np.empty(4), np.empty(4), np.empty(3)
    mujoco.mju_negQuat(inverse, current_wxyz)
    mujoco.mju_mulQuat(delta, target_wxyz, inverse)
    mujoco.mju_quat2Vel(vector, delta, 1.0)
    return vector


def xyzw_from_quat(quat_wxyz: Array) -> tuple[float, float, float, float]:
    """The wire's order, with a non-negative w so that equal rotations have one form."""
    w, x, y, z = (float(part) for part in (quat_wxyz if quat_wxyz[0] >= 0 else -quat_wxyz))
    return x, y, z, w
