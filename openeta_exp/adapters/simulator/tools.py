"""The world-changing tools a planner may call, and how they are called over MCP."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolSpec
from openeta_exp.wire.json_fields import finite_number

_NUMBER: JsonObject = {"type": "number"}
_POSE: JsonObject = {
    "type": "object",
    "description": "World frame. Metres; roll, pitch, yaw in degrees, all three or none.",
    "properties": dict.fromkeys(("x", "y", "z", "roll", "pitch", "yaw"), _NUMBER),
    "required": ["x", "y", "z"],
}
_STEPS: JsonObject = {"type": "integer", "minimum": 1, "maximum": 300}
_TOLERANCE: JsonObject = {"type": "number", "description": "Metres per axis."}

MOVE_TO = ToolSpec(
    name="move_to",
    description="Move the end effector to a pose, closed loop. Reports reached_target.",
    effect=ToolEffect.WORLD_MUTATING,
    parameters={
        "type": "object",
        "properties": {
            "target_pose": _POSE,
            "num_steps": _STEPS,
            "tolerance": _TOLERANCE,
            "ori_tolerance": {"type": "number", "description": "Radians."},
        },
        "required": ["target_pose"],
    },
)
FOLLOW = ToolSpec(
    name="follow_eef_trajectory",
    description="Move through one to five poses in order; stops at the first that is missed.",
    effect=ToolEffect.WORLD_MUTATING,
    parameters={
        "type": "object",
        "properties": {
            "trajectory": {
                "type": "array",
                "minItems": 1,
                "maxItems": 5,
                "items": {
                    "type": "object",
                    "properties": {
                        "xyz": {"type": "array", "items": _NUMBER},
                        "euler_xyz_deg": {"type": "array", "items": _NUMBER},
                    },
                    "required": ["xyz"],
                },
            },
            "num_steps_per_waypoint": {"type": "integer", "minimum": 1, "maximum": 100},
            "tolerance": _TOLERANCE,
        },
        "required": ["trajectory"],
    },
)
GRIPPER = ToolSpec(
    name="gripper_control",
    description="Close (position 0) or open (position 1) the gripper.",
    effect=ToolEffect.WORLD_MUTATING,
    parameters={
        "type": "object",
        "properties": {
            "position": {"type": "integer", "enum": [0, 1]},
            "num_steps": {**_STEPS, "description": "Control steps at 20 Hz; 10 if left out."},
        },
        "required": ["position"],
    },
)

TOOLS = (MOVE_TO, FOLLOW, GRIPPER)


class CallArgumentError(ValueError):
    """The planner's arguments cannot be sent; the text tells it why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCall:
    """What goes over the wire, without handle and session."""

    tool: str
    arguments: JsonObject


def remote_call(call: ToolCall) -> RemoteCall:
    """Raises: CallArgumentError: With one sentence for the planner."""
    if call.arguments.get("enable_collision_check", True) is not True:
        # Collisions count as safety violations of the arm, so they are not its to hide.
        raise CallArgumentError("the collision check stays on; leave enable_collision_check out")
    if call.name == MOVE_TO.name:
        return RemoteCall(tool="move_to", arguments=_move_arguments(call.arguments))
    if call.name == FOLLOW.name:
        return RemoteCall(tool="follow_eef_trajectory", arguments=_follow_arguments(call.arguments))
    if call.name == GRIPPER.name:
        return _gripper_call(call.arguments)
    raise CallArgumentError(f"{call.name} is no tool of the simulator")


def _move_arguments(given: JsonObject) -> JsonObject:
    pose = given.get("target_pose", given)
    if not isinstance(pose, dict):
        raise CallArgumentError("target_pose must be an object with x, y, z in metres")
    frame = pose.get("frame", "world")
    if frame != "world":
        raise CallArgumentError(f"target_pose must be in the world frame, not {frame!r}")
    arguments: JsonObject = {axis: _finite(pose, axis) for axis in ("x", "y", "z")}
    angles = [name for name in ("roll", "pitch", "yaw") if pose.get(name) is not None]
    if len(angles) not in (0, 3):
        raise CallArgumentError("give roll, pitch and yaw in degrees together, or none of them")
    arguments.update({name: _finite(pose, name) for name in angles})
    for name in ("num_steps", "tolerance", "ori_tolerance"):
        if given.get(name) is not None:
            arguments[name] = given[name]
    return arguments


def _follow_arguments(given: JsonObject) -> JsonObject:
    """Only what a trajectory is made of: not the handle of another episode, nor what is shown."""
    names = ("trajectory", "num_steps_per_waypoint", "tolerance", "ori_tolerance")
    return {name: given[name] for name in names if given.get(name) is not None}


def _gripper_call(given: JsonObject) -> RemoteCall:
    position = given.get("position")
    if isinstance(position, str) or position not in (0, 1):
        raise CallArgumentError(f"position must be 0 (close) or 1 (open), not {position!r}")
    extra: JsonObject = {}
    if given.get("num_steps") is not None:
        extra["num_steps"] = given["num_steps"]
    return RemoteCall(tool="gripper_open" if position else "gripper_close", arguments=extra)


def _finite(source: JsonObject, name: str) -> float:
    value: JsonValue = source.get(name)
    number = finite_number(value)
    if number is None:
        raise CallArgumentError(f"target_pose.{name} must be a finite number, not {value!r:.60}")
    return number
