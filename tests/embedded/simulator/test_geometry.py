"""Rotations, bounds and the closed loop, as pure functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.embedded.simulator.backend import ActionScale, Array, HandPose
from openeta_exp.embedded.simulator.bounds import upright_bounds
from openeta_exp.embedded.simulator.motion import Limits, Target, drive
from openeta_exp.embedded.simulator.rotations import (
    euler_deg_from_quat,
    matrix_from_quat,
    quat_from_euler_deg,
    quat_from_matrix,
    quat_from_xyzw,
    rotation_between,
    xyzw_from_quat,
)

ANGLES = st.floats(min_value=-180, max_value=180)
TILTS = st.floats(min_value=-89, max_value=89)


@given(ANGLES, TILTS, ANGLES)
def test_euler_angles_are_yaw_after_pitch_after_roll(roll: float, pitch: float, yaw: float) -> None:
    def about(axis: int, degrees: float) -> Array:
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        turn = np.eye(3)
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        turn[i, i], turn[j, j], turn[i, j], turn[j, i] = c, c, -s, s
        return turn

    quat = quat_from_euler_deg(roll, pitch, yaw)

    assert np.allclose(matrix_from_quat(quat), about(2, yaw) @ about(1, pitch) @ about(0, roll))
    again = quat_from_euler_deg(*euler_deg_from_quat(quat))
    assert np.linalg.norm(rotation_between(again, quat)) < 1e-6


@given(ANGLES, TILTS, ANGLES)
def test_every_form_of_a_rotation_leads_back_to_it(roll: float, pitch: float, yaw: float) -> None:
    quat = quat_from_euler_deg(roll, pitch, yaw)
    for same in (quat_from_xyzw(xyzw_from_quat(quat)), quat_from_matrix(matrix_from_quat(quat))):
        assert np.linalg.norm(rotation_between(same, quat)) < 1e-6


def test_what_is_no_rotation_is_refused() -> None:
    with pytest.raises(ValueError, match="zero"):
        quat_from_xyzw((0.0, 0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="not a rotation"):
        quat_from_matrix(np.eye(3) * 2)


@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.integers(-89, 90))
def test_bounds_find_a_turned_box(x: float, y: float, yaw_deg: int) -> None:
    corners = np.array([(i, j, k) for i in (-0.05, 0.05) for j in (-0.02, 0.02) for k in (0, 0.1)])
    turn = matrix_from_quat(quat_from_euler_deg(0, 0, yaw_deg))

    bounds = upright_bounds(corners @ turn.T + np.array([x, y, 0.0]))

    assert np.allclose(bounds.size, (0.10, 0.04, 0.10), atol=2e-3)
    assert np.allclose(bounds.center, (x, y, 0.05), atol=2e-3)
    assert abs((np.degrees(bounds.yaw_rad) - yaw_deg + 90) % 180 - 90) < 1.01


class Ideal:
    """A hand that goes exactly where it is told, unless `blocked_at` stops it in x."""

    def __init__(self, *, blocked_at: float = np.inf) -> None:
        self.xyz = np.zeros(3)
        self.quat = np.array([1.0, 0.0, 0.0, 0.0])
        self._blocked_at = blocked_at

    def pose(self) -> HandPose:
        return HandPose(self.xyz.copy(), self.quat.copy())

    def advance(self, action: Array) -> None:
        assert np.all(np.abs(action) <= 1.0)
        self.xyz = self.xyz + action[:3] * SCALE.metres
        self.xyz[0] = min(self.xyz[0], self._blocked_at)


SCALE = ActionScale(metres=0.02, radians=0.1, control_hz=20.0, gain=1.0)
LIMITS = Limits(steps=200, tolerance_m=0.002, tolerance_rad=0.05)


def test_the_loop_takes_the_straight_way_and_no_step_too_many() -> None:
    hand = Ideal()

    outcome = drive(
        Target(np.array([0.2, 0.1, 0.0]), None),
        LIMITS,
        scale=SCALE,
        pose=hand.pose,
        advance=hand.advance,
    )

    assert (outcome.stop_reason, outcome.steps_executed) == ("reached", 10)
    assert hand.xyz[1] == pytest.approx(hand.xyz[0] / 2)


def test_the_loop_gives_up_where_nothing_moves_any_more() -> None:
    hand = Ideal(blocked_at=0.1)

    outcome = drive(
        Target(np.array([0.2, 0.0, 0.0]), None),
        LIMITS,
        scale=SCALE,
        pose=hand.pose,
        advance=hand.advance,
    )

    assert outcome.stop_reason == "stalled"
    assert outcome.steps_executed < 30
    assert outcome.error.metres[0] == pytest.approx(0.1)
