"""The simulator's tool replies -> records (OpenETA tool contract).

Facts that differ between backends are settled here: the camera convention is read from
`camera_frame`, and `reached_target` is inferred from `end` and `target` where a server does not
say it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from openeta_exp.domain.identity import JsonObject, check_path_component
from openeta_exp.domain.observation import (
    CameraFrame,
    Intrinsics,
    Matrix4,
    Observation,
    RobotState,
    SceneObject,
)
from openeta_exp.domain.record import check_json
from openeta_exp.wire.base64_text import decode_base64
from openeta_exp.wire.images import ImageError, png_size
from openeta_exp.wire.json_fields import (
    FieldError,
    boolean_field,
    integer_field,
    number_field,
    numbers_field,
    object_field,
    objects_field,
    optional_number,
    optional_object,
    text_field,
    vector3_field,
)

REACHED_TOLERANCE_M = 0.01
"""Per axis, used only where the server does not report `reached_target` itself."""


MAX_ERROR_CHARACTERS = 2_000
"""Of a server's error; the planner and the outcome carry it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentReply:
    """What every acting tool says about the world."""

    reward: float
    terminated: bool
    truncated: bool
    tells_end: bool
    observation: Observation | None
    collision: bool


def parse_reset(reply: JsonObject) -> Observation:
    """The observation an episode starts from.

    A checker that is satisfied already says so with `success_at_reset` or, as every reply does,
    with a positive reward; either way the scene proves nothing. Raises: FieldError.
    """
    observation = parse_observation(reply)
    solved = observation.success_at_reset or parse_environment_reply(reply).reward > 0
    return replace(observation, success_at_reset=solved)


def parse_observation(reply: JsonObject) -> Observation:
    """A flat observation. Raises: FieldError."""
    robot = object_field(reply, "robot")
    pose = object_field(robot, "end_effector_pose")
    facts = optional_object(reply, "metadata")
    digest = facts.get("state_digest")
    quaternion = numbers_field(pose, "quat_xyzw", length=4) if pose.get("quat_xyzw") else None
    return Observation(
        task=str(reply.get("task") or ""),
        cameras=tuple(
            _camera(row) for row in objects_field(reply, "cameras") if row.get("rgb_base64")
        ),
        robot=RobotState(
            eef_xyz_m=vector3_field(pose, "xyz"),
            eef_quat_xyzw=None if quaternion is None else _four(quaternion),
            gripper_openness=optional_number(
                optional_object(robot, "gripper_state"), "openness", 0.0
            ),
            joint_positions=tuple(numbers_field(robot, "joint_positions"))
            if robot.get("joint_positions")
            else (),
        ),
        objects=tuple(
            SceneObject(
                name=text_field(row, "name"),
                position_m=vector3_field(row, "position") if row.get("position") else None,
            )
            for row in objects_field(reply, "objects")
        ),
        success_at_reset=boolean_field(facts, "success_at_reset", default=False),
        state_digest=digest if isinstance(digest, str) else None,
        facts=_facts(facts),
    )


def _facts(metadata: JsonObject) -> JsonObject:
    """What is kept with the episode, so it must be something that can be kept."""
    facts = {key: value for key, value in metadata.items() if key != "frames"}
    try:
        check_json(facts)
    except ValueError as error:
        raise FieldError("`metadata` must be finite, shallow JSON in UTF-8") from error
    return facts


def parse_environment_reply(reply: JsonObject) -> EnvironmentReply:
    """Reward, end and view in the reply of an acting or observing tool.

    A flat observation carries its reward in `metadata`; a step result carries it at the top and
    its observation inside. Raises: FieldError.
    """
    metadata = optional_object(reply, "metadata")
    source = reply if "reward" in reply or "terminated" in reply else metadata
    inner = reply.get("observation")
    shown = inner if isinstance(inner, dict) else reply
    observation = parse_observation(shown) if "robot" in shown else None
    # Null is what some servers make of NaN; an action must not lose its reward that way.
    acted = "reward" in reply
    return EnvironmentReply(
        reward=number_field(reply, "reward") if acted else optional_number(source, "reward", 0.0),
        terminated=boolean_field(source, "terminated", default=False),
        truncated=boolean_field(source, "truncated", default=False),
        tells_end=isinstance(source.get("terminated"), bool),
        observation=observation,
        collision=_collided(reply),
    )


def _collided(reply: JsonObject) -> bool:
    collision = reply.get("collision")
    return isinstance(collision, dict) and collision.get("detected") is True


def reached_target(reply: JsonObject) -> bool | None:
    """Did the motion arrive? The server's word, else `end` against `target`; None if unknown.

    A detected collision forces False.
    """
    if _collided(reply):
        return False
    said = reply.get("reached_target")
    if isinstance(said, bool):
        return said
    try:
        target = object_field(reply, "target")
        end = numbers_field(object_field(reply, "end"), "xyz", length=3)
        wanted = [number_field(target, axis) for axis in ("x", "y", "z")]
    except FieldError:
        return None
    return all(abs(a - b) <= REACHED_TOLERANCE_M for a, b in zip(end, wanted, strict=True))


def error_text(reply: JsonObject) -> str | None:
    """The reply's own error: a top-level `error`, `ok: false` or `success: false`."""
    if reply.get("error"):
        return str(reply["error"])[:MAX_ERROR_CHARACTERS]
    if reply.get("ok") is False or reply.get("success") is False:
        said = reply.get("message") or reply.get("code") or "the simulator refused"
        return str(said)[:MAX_ERROR_CHARACTERS]
    return None


def _camera(row: JsonObject) -> CameraFrame:
    intrinsics = object_field(row, "intrinsics")
    role = row.get("role")
    width, height = integer_field(row, "width"), integer_field(row, "height")
    return CameraFrame(
        frame_id=_frame_id(row),
        width=width,
        height=height,
        rgb_png=_png(row, "rgb_base64", width, height),
        depth_png=_png(row, "depth_base64", width, height) if row.get("depth_base64") else None,
        intrinsics=Intrinsics(
            fx=number_field(intrinsics, "fx"),
            fy=number_field(intrinsics, "fy"),
            cx=number_field(intrinsics, "cx"),
            cy=number_field(intrinsics, "cy"),
        ),
        world_from_camera=_world_from_camera(optional_object(row, "extrinsics")),
        role=role if isinstance(role, str) else None,
    )


def _frame_id(row: JsonObject) -> str:
    try:
        # It becomes part of the path under which the planner names the image.
        return check_path_component(text_field(row, "frame_id"))
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError(f"`frame_id`: {error}") from error


def _png(row: JsonObject, name: str, width: int, height: int) -> bytes:
    """The bytes of an image, which is still encoded but of the size that was said."""
    content = _decoded(text_field(row, name), name)
    try:
        size = png_size(content)
    except ImageError as error:
        raise FieldError(f"`{name}`: {error}") from error
    if size != (width, height):
        raise FieldError(
            f"`{name}` is an image of {size[0]} x {size[1]} pixels, but width and height say "
            f"{width} x {height}"
        )
    return content


def _decoded(text: str, name: str) -> bytes:
    try:
        return decode_base64(text)
    except ValueError as error:
        raise FieldError(f"`{name}` is not base64") from error


_IDENTITY: Matrix4 = (
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (0.0, 0.0, 0.0, 1.0),
)

_CV_FROM = {
    # Columns of the camera's own axes that an OpenCV axis (x right, y down, z forward) maps to.
    "opencv": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "opengl": ((1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)),
    # A ROS camera body looks along +x with +z up: (right, down, forward) = (-y, -z, +x).
    "ros": ((0.0, -1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0)),
}


def _world_from_camera(extrinsics: JsonObject) -> Matrix4:
    """4x4 in OpenCV axes, whatever convention the server names in `camera_frame`."""
    if not extrinsics:
        return _IDENTITY
    frame = str(extrinsics.get("camera_frame") or "opengl")
    axes = _CV_FROM.get(frame)
    if axes is None:
        raise FieldError(f"`camera_frame` must be opencv, opengl or ros, is {frame!r}")
    position = vector3_field(extrinsics, "pos")
    rows = _rotation_rows(extrinsics)
    # R_world_cv[:, k] = R_world_cam @ axes[k]: one camera-frame direction per OpenCV axis.
    columns = [
        [sum(r * a for r, a in zip(row, axis, strict=True)) for row in rows] for axis in axes
    ]
    top = [(columns[0][i], columns[1][i], columns[2][i], position[i]) for i in range(3)]
    return (top[0], top[1], top[2], (0.0, 0.0, 0.0, 1.0))


_LARGEST_ENTRY = 1.01
"""No entry of a rotation matrix is above 1; what is said may be rounded."""


def _rotation_rows(extrinsics: JsonObject) -> list[list[float]]:
    if extrinsics.get("mat") is not None:
        flat = numbers_field(extrinsics, "mat", length=9)
        if any(abs(entry) > _LARGEST_ENTRY for entry in flat):
            raise FieldError("`mat` must be a rotation, and no entry of one is above 1")
        return [flat[0:3], flat[3:6], flat[6:9]]
    quaternion = numbers_field(extrinsics, "quat_xyzw", length=4)
    norm = math.hypot(*quaternion)
    if norm == 0 or not math.isfinite(norm):
        raise FieldError("`quat_xyzw` must be a rotation, is as good as 0 or infinite")
    x, y, z, w = (part / norm for part in quaternion)
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]


def _four(values: list[float]) -> tuple[float, float, float, float]:
    a, b, c, d = values
    return a, b, c, d
