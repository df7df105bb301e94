"""What a client may send: one frozen record per tool.

Unknown arguments are ignored, because clients of the original send some that only other
backends know. Known ones are checked, and every mistake is reported at once.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from openeta_exp.domain.record import Record

Pixels = Annotated[int, Field(ge=16, le=2048)]
Triple = Annotated[tuple[float, float, float], Field()]


class ToolArguments(Record):
    """Arguments of one tool call; tolerant of keys it does not know."""

    # The docstrings become the descriptions that an agent reads.
    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)


class ListEnvs(ToolArguments):
    env_type: str = ""
    """`libero` or `tabletop`; empty lists both."""


class SearchEnvs(ToolArguments):
    query: str
    """Text to look for in env ids and instructions; every word must occur."""


class CreateEnv(ToolArguments):
    env_id: str
    """Such as `openeta/libero_libero_object_task0-v0` or `openeta/tabletop_pick_can_basket-v0`."""
    session_id: str = ""
    """Groups environments for `list_active_envs`; empty starts a new session."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Chooses the initial state and seeds every random number generator of the environment."""
    render_mode: str = "rgb_array"
    task: str = ""
    """Accepted for compatibility; the instruction is the environment's own."""
    robot: str = ""
    image_width: Pixels | None = None
    """Pixels; 256 if absent."""
    image_height: Pixels | None = None
    cameras: tuple[str, ...] | None = None
    """Camera names, `agentview` and `wrist`; absent means `agentview`, `[]` needs no GL at all."""
    depth: bool = True
    """Whether frames carry depth next to colour."""
    include_objects: bool = False
    """Whether observations carry privileged object poses and bounds."""


class HandleArguments(ToolArguments):
    handle: str
    """From `create_env`; enough on its own."""
    session_id: str = ""
    """Checked if given."""
    render: bool = True
    """False leaves the images out of the reply: none is drawn or encoded."""


class ResetEnv(HandleArguments):
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    """Absent repeats the seed in use."""


class StepEnv(HandleArguments):
    action: Annotated[tuple[float, ...], Field(min_length=7, max_length=7)] | None = None
    """dx, dy, dz, droll, dpitch, dyaw, gripper in [-1, 1] (clipped); absent samples one."""
    num_steps: int = Field(default=1, ge=1, le=1000)
    """Control steps, 20 a second."""


class MotionArguments(HandleArguments):
    tolerance: float = Field(default=0.002, gt=0, le=0.1)
    """Metres, per axis."""
    ori_tolerance: float = Field(default=0.05, gt=0, le=3.2)
    """Radians."""
    enable_collision_check: bool = True
    """Stop when the hand presses more than 5 mm into something."""


class MoveTo(MotionArguments):
    x: float
    """Metres, world frame, of the point between the finger pads."""
    y: float
    z: float
    roll: float | None = None
    """Degrees; rotation = Rz(yaw) Ry(pitch) Rx(roll). Give all three or none (keep what is)."""
    pitch: float | None = None
    yaw: float | None = None
    num_steps: int = Field(default=100, ge=1, le=1000)
    """At most this many control steps."""

    @model_validator(mode="after")
    def _orientation_is_whole(self) -> MoveTo:
        given = [angle is not None for angle in (self.roll, self.pitch, self.yaw)]
        if any(given) and not all(given):
            raise ValueError("give roll, pitch and yaw together, or none of them")
        return self


class Waypoint(ToolArguments):
    """One pose of a trajectory: a position and at most one form of orientation."""

    xyz: Triple
    frame: Literal["world"] = "world"
    euler_xyz_deg: Triple | None = None
    quat_xyzw: tuple[float, float, float, float] | None = None
    rotation_matrix: tuple[Triple, Triple, Triple] | None = None

    @model_validator(mode="after")
    def _one_orientation(self) -> Waypoint:
        forms = (self.euler_xyz_deg, self.quat_xyzw, self.rotation_matrix)
        if sum(form is not None for form in forms) > 1:
            raise ValueError("give one of euler_xyz_deg, quat_xyzw, rotation_matrix")
        return self


class FollowEefTrajectory(MotionArguments):
    trajectory: tuple[Waypoint, ...] = Field(min_length=1, max_length=5)
    num_steps_per_waypoint: int = Field(default=60, ge=1, le=100)


class MoveGripper(HandleArguments):
    num_steps: int = Field(default=10, ge=1, le=200)
    """Control steps to hold still while the fingers travel."""


class ObserveEnv(HandleArguments):
    pass


class CloseEnv(ToolArguments):
    handle: str
    session_id: str = ""


class ListActiveEnvs(ToolArguments):
    session_id: str = ""
    """Empty lists every session."""
