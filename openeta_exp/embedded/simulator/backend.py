"""What an environment process asks of a simulator: one MuJoCo scene with a robot and a checker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import mujoco

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HandPose:
    """Where the gripper is, in the world frame.

    Attributes:
        xyz: `[3]` metres, the point between the finger pads.
        quat_wxyz: `[4]` orientation of the hand. Straight down is roll 180, pitch 0, yaw 0, and
            then the fingers close along world y.
    """

    xyz: Array
    quat_wxyz: Array


@dataclass(frozen=True, slots=True)
class Joints:
    """Joint state of the arm, without the fingers: radians or metres, and per second."""

    positions: tuple[float, ...]
    velocities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ActionScale:
    """What one unit of an action commands."""

    metres: float
    radians: float
    control_hz: float
    gain: float
    """Fraction of the pose error a closed loop commands per control step."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One thing a segmentation can show."""

    name: str
    """Unique, such as `alphabet_soup_1`."""
    category: str
    body_ids: frozenset[int]
    movable: bool


@dataclass(frozen=True, slots=True)
class InitialState:
    """What a seed selected."""

    seed: int
    init_state_index: int | None
    """Index into the fixed initial states of a benchmark; None if the seed draws placements."""


class EnvironmentFault(Exception):  # noqa: N818 - told apart from a crash by not being an error
    """The tool cannot be run as asked; nothing moved and the process is fine.

    Attributes:
        code: Stable identifier for the error reply.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class Backend(Protocol):
    """One scene, stepped at `scale.control_hz`, owned by one thread.

    Actions are `[7]`: dx, dy, dz, droll, dpitch, dyaw in [-1, 1] times `scale`, about and along
    world axes, then the gripper: -1 opens, +1 closes, 0 keeps the fingers where they are.
    """

    name: str
    version: str
    robot: str
    task: str
    scale: ActionScale
    cameras: dict[str, str]
    """Contract name to MuJoCo camera name."""
    geom_groups: frozenset[int]
    """MuJoCo geom groups a camera sees."""
    instances: tuple[Instance, ...]
    hand_bodies: frozenset[int]
    """Bodies of the robot except its fingers: nothing should touch them."""

    @property
    def model(self) -> mujoco.MjModel: ...

    @property
    def data(self) -> mujoco.MjData: ...

    def reset(self, seed: int) -> InitialState:
        """Restart from the state `seed` selects; equal seeds give bit-identical episodes."""
        ...

    def step(self, action: Array) -> None:
        """Advance one control step."""
        ...

    def succeeded(self) -> bool:
        """The checker's answer for the present state."""
        ...

    def hand_pose(self) -> HandPose: ...

    def openness(self) -> float:
        """1 is fully open, 0 closed."""
        ...

    def joints(self) -> Joints: ...

    def close(self) -> None: ...
