"""What the server answers: the JSON objects of the tool contract as frozen records.

Lengths are metres in the world frame, angles radians unless a name says degrees, quaternions
xyzw everywhere. Absent fields are left out of the JSON; a success never carries `error`.
"""

from __future__ import annotations

from typing import Literal

from openeta_exp.domain.record import Record

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


class Intrinsics(Record):
    """Pinhole camera in pixels; the principal point is the image centre."""

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int
    znear: float
    zfar: float


class Extrinsics(Record):
    """Camera pose. OpenGL axes: x right, y up, z backwards; world = mat · point + pos."""

    camera_frame: Literal["opengl"] = "opengl"
    pos: Vector
    mat: tuple[float, float, float, float, float, float, float, float, float]
    """Row-major rotation from camera to world."""
    matrix_layout: Literal["row_major"] = "row_major"
    frame_transform: Literal["camera_to_world"] = "camera_to_world"
    image_origin: Literal["top_left"] = "top_left"


class CameraObservation(Record):
    frame_id: str
    role: Literal["scene_primary", "wrist_primary"]
    rgb_base64: str
    """8-bit RGB PNG."""
    width: int
    height: int
    depth_base64: str | None = None
    """16-bit PNG of optical-axis depth in millimetres; 0 is no reading."""
    depth_encoding: Literal["uint16_png"] | None = None
    depth_scale: float | None = None
    """Pixel value per metre."""
    depth_min: float | None = None
    depth_max: float | None = None
    intrinsics: Intrinsics
    extrinsics: Extrinsics
    timestamp_s: float
    """Simulated time, so that equal states give equal bytes."""


class Pose(Record):
    xyz: Vector
    quat_xyzw: Quaternion


class GripperState(Record):
    openness: float
    """1 is fully open, 0 closed."""
    open: bool


class RobotObservation(Record):
    joint_positions: tuple[float, ...]
    joint_velocities: tuple[float, ...]
    end_effector_pose: Pose
    """The point between the finger pads, with the orientation of the hand."""
    gripper_state: GripperState


class ObjectBounds(Record):
    """The smallest upright box around an object's collision geometry."""

    center: Vector
    size: Vector
    """Extent along the box's own x, y and z; x is the longer side."""
    yaw_deg: float
    """Rotation of the box about world z, in (-90, 90]."""


class ObjectObservation(Record):
    name: str
    category: str
    position: Vector
    orientation: Quaternion
    bounds: ObjectBounds | None = None


class ObservationMetadata(Record):
    backend: str
    backend_version: str
    mujoco_version: str
    gl: str
    """The GL platform frames come from; `none` if this observation was never rendered."""
    quality: str
    env_id: str
    seed: int
    init_state_index: int | None = None
    sim_step: int
    """Control steps since the reset observation."""
    state_digest: str
    """SHA-256 of the bytes of qpos and qvel."""
    frames: dict[str, str]
    """Camera name to SHA-256 of its RGB PNG bytes; the key of `GET /frames/{sha256}`."""
    success_at_reset: bool
    """The checker was already satisfied before anything moved."""
    reward: float
    """1 once the checker was satisfied since reset, so that no success is lost with a reply."""
    terminated: bool
    truncated: bool
    object_quaternion_order: Literal["xyzw"] = "xyzw"


class Observation(Record):
    task: str
    cameras: tuple[CameraObservation, ...]
    robot: RobotObservation
    objects: tuple[ObjectObservation, ...]
    metadata: ObservationMetadata


class StepNotes(Record):
    """The `info` of a step result."""

    steps_executed: int
    success: bool
    note: str | None = None


class StepReply(Record):
    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: StepNotes


class MotionTarget(Record):
    x: float
    y: float
    z: float
    roll: float | None = None
    """Degrees."""
    pitch: float | None = None
    yaw: float | None = None


class Collision(Record):
    detected: bool
    available: bool = True
    message: str | None = None
    max_world_penetration: float | None = None
    """Metres."""
    world_collision: bool | None = None
    reason: str | None = None


StopReason = Literal["reached", "budget", "stalled", "collision", "terminated", "truncated"]


class Motion(Record):
    """What a closed-loop motion did, without an observation."""

    target: MotionTarget
    start: Pose
    end: Pose
    steps_executed: int
    reached_target: bool
    position_error_m: float
    """Largest error along a world axis."""
    orientation_error_rad: float | None = None
    """Absent if no orientation was commanded."""
    stop_reason: StopReason
    reward: float
    terminated: bool
    truncated: bool
    collision: Collision
    note: str | None = None


class MotionReply(Motion):
    observation: Observation


class TrajectoryReply(Record):
    trajectory: tuple[MotionTarget, ...]
    waypoints_requested: int
    waypoints_completed: int
    start: Pose
    end: Pose
    target: MotionTarget
    """Of the last waypoint that was tried."""
    reached_target: bool
    steps_executed: int
    reward: float
    terminated: bool
    truncated: bool
    collision: Collision
    waypoint_results: tuple[Motion, ...]
    note: str | None = None
    observation: Observation


class ControlSpec(Record):
    """What an action means here."""

    layout: tuple[str, ...] = ("dx", "dy", "dz", "droll", "dpitch", "dyaw", "gripper")
    frame: Literal["world"] = "world"
    control_hz: float
    metres_per_unit: float
    radians_per_unit: float
    gripper_open: float = -1.0
    gripper_close: float = 1.0


class CreateReply(Record):
    session_id: str
    handle: str
    env_id: str
    task: str
    seed: int
    backend: str
    robot: str
    action_dim: int
    control_spec: ControlSpec
    action_hint: str
    cameras: tuple[str, ...]
    gl: str
    quality: str
    reused_process: bool
    """A warm process was handed out."""


class EnvListing(Record):
    id: str
    type: str
    description: str


class ListEnvsReply(Record):
    envs: tuple[EnvListing, ...]
    count: int


class SearchEnvsReply(Record):
    results: tuple[EnvListing, ...]


class ActiveEnv(Record):
    index: int
    handle: str
    env_id: str
    backend: str
    session_id: str


class ListActiveReply(Record):
    session_id: str
    count: int
    envs: tuple[ActiveEnv, ...]


class CloseReply(Record):
    ok: Literal[True] = True
    already_closed: bool
    cleanup_errors: tuple[str, ...] = ()


class ErrorReply(Record):
    """A tool that could not do what was asked; sent as a regular result, as the original does."""

    error: str
    code: str
    handle: str | None = None
    fatal: bool
    """True if the environment is gone."""
