"""The closed loop behind `move_to`: drive the hand to a world pose with clipped unit actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from openeta_exp.embedded.simulator.backend import ActionScale, Array, HandPose
from openeta_exp.embedded.simulator.replies import StopReason
from openeta_exp.embedded.simulator.rotations import rotation_between

_STALL_STEPS = 20
_STALL_PROGRESS = 0.02
"""A motion has stalled if so many steps shrank the error by less than this fraction."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to go; no orientation means: keep whatever the hand has.

    Attributes:
        xyz: `[3]` metres, world frame.
        quat_wxyz: `[4]` or None.
    """

    xyz: Array
    quat_wxyz: Array | None


@dataclass(frozen=True, slots=True)
class Limits:
    """When a motion is good enough, and when it has cost enough."""

    steps: int
    tolerance_m: float
    tolerance_rad: float


@dataclass(frozen=True, slots=True)
class Error:
    """How far the hand is from a target, as vectors in the world frame."""

    metres: Array
    radians: Array

    @classmethod
    def between(cls, target: Target, pose: HandPose) -> Error:
        turn = (
            np.zeros(3)
            if target.quat_wxyz is None
            else rotation_between(target.quat_wxyz, pose.quat_wxyz)
        )
        return cls(metres=target.xyz - pose.xyz, radians=turn)

    def within(self, limits: Limits) -> bool:
        close = bool(np.all(np.abs(self.metres) < limits.tolerance_m))
        return close and float(np.linalg.norm(self.radians)) < limits.tolerance_rad

    def size(self, limits: Limits) -> float:
        """In tolerances, so that metres and radians compare."""
        return max(
            float(np.abs(self.metres).max()) / limits.tolerance_m,
            float(np.linalg.norm(self.radians)) / limits.tolerance_rad,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the loop did."""

    steps_executed: int
    stop_reason: StopReason
    error: Error


def drive(
    target: Target,
    limits: Limits,
    *,
    scale: ActionScale,
    pose: Callable[[], HandPose],
    advance: Callable[[Array], StopReason | None],
) -> Outcome:
    """Step towards the target until it is reached, the budget is spent or something stops it.

    `advance` runs one control step with the six motion entries of an action and names a reason
    to stop, if there is one. A hand that is blocked stops early as `stalled`: pushing on until
    the budget ends changes nothing and costs a second of physics.
    """
    error = Error.between(target, pose())
    history = [error.size(limits)]
    for executed in range(limits.steps):
        if error.within(limits):
            return Outcome(executed, "reached", error)
        if len(history) > _STALL_STEPS:
            progress = history[-1 - _STALL_STEPS] - min(history[-_STALL_STEPS:])
            if progress < _STALL_PROGRESS * history[-1 - _STALL_STEPS]:
                return Outcome(executed, "stalled", error)
        stop = advance(_command(error, scale))
        error = Error.between(target, pose())
        history.append(error.size(limits))
        if stop is not None:
            return Outcome(executed + 1, stop, error)
    return Outcome(limits.steps, "reached" if error.within(limits) else "budget", error)


def _command(error: Error, scale: ActionScale) -> Array:
    """`[6]` unit action, shortened as a whole so that the path stays straight."""
    metres = error.metres * scale.gain / scale.metres
    radians = error.radians * scale.gain / scale.radians
    for part in (metres, radians):
        longest = float(np.abs(part).max())
        if longest > 1.0:
            part /= longest
    return np.concatenate([metres, radians])
