"""Tool outputs as the planner understands them; anything else reads as absent."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ConfigDict, ValidationError

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record

Vector = tuple[float, float, float]


class Reply(Record):
    """Hosts add outputs of their own; only those named here are read."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Detection(Reply):
    id: str
    score: float = 0.0


class Segmentation(Reply):
    """Of `sam3`."""

    detections: tuple[Detection, ...]
    selected: str | None = None


class Measurement(Reply):
    """Of `measure_detection`: world frame, metres."""

    detection_id: str
    centre_xyz_m: Vector
    min_xyz_m: Vector
    top_centre_xyz_m: Vector


class Pose(Reply):
    """World frame, metres and degrees."""

    x: float
    y: float
    z: float
    roll: float | None = None
    pitch: float | None = None
    yaw: float | None = None


class GraspSeed(Reply):
    """Of `compile_grasp_seed`."""

    candidate_id: str
    hover_pose: Pose
    contact_pose: Pose
    target_bottom_z_m: float
    grasp_offset_xy_m: tuple[float, float] = (0.0, 0.0)
    """From the target's middle to where it is gripped: large for a rim."""


class Position(Reply):
    x: float
    y: float
    z: float


class Motion(Reply):
    """Of `move_to`."""

    reached_target: bool
    end: Position


class SkillText(Reply):
    """Of `read_skill`."""

    content: str


R = TypeVar("R", bound=Reply)


def read(reply: type[R], outputs: JsonObject) -> R | None:
    """The outputs as a record; None if they are not one."""
    try:
        return reply.model_validate(outputs)
    except ValidationError:
        return None
