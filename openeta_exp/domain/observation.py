"""What an environment shows, as it stands in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from openeta_exp.domain.identity import JsonObject

Matrix4 = tuple[
    tuple[float, float, float, float],
    tuple[float, float, float, float],
    tuple[float, float, float, float],
    tuple[float, float, float, float],
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intrinsics:
    """Pinhole model, in pixels."""

    fx: float
    fy: float
    cx: float
    cy: float


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraFrame:
    """One camera's view at one instant, still encoded: most turns never look at the pixels.

    Attributes:
        frame_id: Camera name, e.g. `agentview` or `wrist`.
        rgb_png: 8-bit RGB, row 0 at the top.
        depth_png: 16-bit grey, optical-axis depth in millimetres, 0 where unknown; None if the
            camera gave none.
        world_from_camera: 4x4, OpenCV axes (x right, y down, z forward), metres.
    """

    frame_id: str
    width: int
    height: int
    rgb_png: bytes
    depth_png: bytes | None
    intrinsics: Intrinsics
    world_from_camera: Matrix4
    role: str | None = None

    @cached_property
    def rgb_sha256(self) -> str:
        """Names the frame towards perception: exactly these bytes."""
        return hashlib.sha256(self.rgb_png).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotState:
    """Proprioception, world frame.

    Attributes:
        eef_xyz_m: End-effector position, metres.
        eef_quat_xyzw: End-effector orientation; None if the environment gives none.
        gripper_openness: 0 closed to 1 open.
    """

    eef_xyz_m: tuple[float, float, float]
    eef_quat_xyzw: tuple[float, float, float, float] | None
    gripper_openness: float
    joint_positions: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneObject:
    """An object the environment chose to name. An empty list says nothing about the scene."""

    name: str
    position_m: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything seen at one instant.

    Attributes:
        state_digest: Digest of the simulator's state, if the simulator gives one.
        facts: What else the environment reports (backend, GL, quality, seed, initial state).
    """

    task: str
    cameras: tuple[CameraFrame, ...]
    robot: RobotState
    objects: tuple[SceneObject, ...] = ()
    success_at_reset: bool = False
    state_digest: str | None = None
    facts: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraArtifact:
    """One image of the current observation as the planner may name it."""

    frame_id: str
    kind: Literal["rgb", "depth"]
    path: str


_FRAME_ORDER = {"agentview": 0, "render": 1, "wrist": 2}
_ROLE_ORDER = {"scene_primary": 0, "scene_secondary": 1, "wrist_primary": 2, "wrist_secondary": 3}


def ordered_cameras(observation: Observation) -> tuple[CameraFrame, ...]:
    """Cameras by role where given, else agentview, render, wrist, then others as they came."""

    def rank(frame: CameraFrame) -> int:
        if frame.role is not None and frame.role in _ROLE_ORDER:
            return _ROLE_ORDER[frame.role]
        return _FRAME_ORDER.get(frame.frame_id, len(_FRAME_ORDER))

    return tuple(sorted(observation.cameras, key=rank))
