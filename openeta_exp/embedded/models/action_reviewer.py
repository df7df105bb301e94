"""`scripted-action-reviewer`: lets a call pass that the host's own evidence accounts for.

A pure function of the request. It rejects what contradicts the evidence and abstains where there
is none; it never looks at the picture.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.record import Record
from openeta_exp.embedded.models.overreach import overreach
from openeta_exp.embedded.models.planner.task import parse_task

Vector = tuple[float, float, float]

SAME_POSE_M = 0.012
SAME_ANGLE_DEG = 4.0
RISE_DRIFT_M = 0.04
"""How far a straight rise may stray sideways."""
NEAR_CONTACT_M = 0.06
"""How far from the compiled contact pose fingers may close."""
OVER_GOAL_M = 0.06
"""How far beside the measured outline of a goal the way may end."""
WORKSPACE_M = 2.0
"""Nothing an arm on a table can mean lies further from the world's origin on any axis."""
LOW_M = 0.03
"""What is held lower than this above the grasp still stands where it was."""


class _Tolerant(Record):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _Selection(_Tolerant):
    label: str = ""
    prompt: str = ""
    scene_epoch: int = 0


class _Compiled(_Tolerant):
    frame: str = ""
    hover_xyz_m: Vector
    contact_xyz_m: Vector
    roll_pitch_yaw_deg: Vector


class _Candidate(_Tolerant):
    id: str
    state: str = "active"
    compiled: _Compiled | None = None


class _Measured(_Tolerant):
    label: str = ""
    min_xyz_m: Vector
    max_xyz_m: Vector


class _Gripper(_Tolerant):
    holds_something: bool = False


class _Evidence(_Tolerant):
    scene_epoch: int = 0
    selection: _Selection | None = None
    active_grasp_candidate: _Candidate | None = None
    last_compiled: _Compiled | None = None
    measured: tuple[_Measured, ...] = ()
    gripper: _Gripper = _Gripper()


class _Robot(_Tolerant):
    eef_xyz_m: Vector


class _Observation(_Tolerant):
    robot: _Robot


class _Request(_Tolerant):
    task: str
    answers: tuple[str, ...] = ()
    tool: str
    parameters: JsonObject = Field(default_factory=dict)
    reasoning: str = ""
    observation: _Observation
    evidence: _Evidence


@dataclass(frozen=True, slots=True)
class _Answer:
    decision: str
    reason: str


def action_reviewer(messages: Sequence[ModelMessage]) -> str:
    """Answer a reviewer's request (`openeta_exp.action_review.v1`)."""
    try:
        request = _Request.model_validate_json(messages[-1].text)
    except ValidationError:
        answer = _Answer("abstain", "the request cannot be read, or a number in it is not finite")
    else:
        answer = _judge(request)
    return json.dumps({"decision": answer.decision, "reason": answer.reason})


def _judge(request: _Request) -> _Answer:
    said = " ".join((request.reasoning, json.dumps(request.parameters)))
    asked = overreach(said) or overreach(request.task)
    if asked is not None:
        return _Answer("reject", f"it asks to get around a safeguard: {asked!r}")
    selection = request.evidence.selection
    if selection is not None and not _is_meant(selection.label or selection.prompt, request):
        return _Answer(
            "reject", f"the selected detection is {selection.label!r}, which the task does not name"
        )
    match request.tool:
        case "move_to":
            return _judge_pose(request.parameters.get("target_pose"), request)
        case "follow_eef_trajectory":
            return _judge_trajectory(request)
        case "gripper_control":
            return _judge_gripper(request)
        case other:
            return _Answer("abstain", f"nothing here says what {other} may do")


def _is_meant(label: str, request: _Request) -> bool:
    """Whether a detection's name is the target of the task, or of an answer about it."""
    named = _words(label)
    for text in (request.task, *request.answers):
        for sentence in re.split(r"(?<=[.!?])\s+", text):
            task = parse_task(sentence)
            if task is not None:
                target = _words(task.target)
                return bool(named) and (named <= target or target <= named)
    return bool(named & _words(request.task))


def _words(text: str) -> frozenset[str]:
    return frozenset(word.rstrip("s") for word in re.findall(r"[^\W\d_]+", text.lower()))


def _judge_trajectory(request: _Request) -> _Answer:
    rows = request.parameters.get("trajectory")
    if not isinstance(rows, list) or not rows:
        return _Answer("reject", "the trajectory has no waypoint")
    for row in rows:
        point = row.get("xyz") if isinstance(row, dict) else None
        if not isinstance(point, list) or len(point) != 3:
            return _Answer("reject", "a waypoint is no point")
        answer = _judge_pose(dict(zip("xyz", point, strict=True)), request)
        if answer.decision != "approve":
            return answer
    return _Answer("approve", "every waypoint is accounted for")


def _judge_pose(pose: JsonValue, request: _Request) -> _Answer:
    if not isinstance(pose, dict):
        return _Answer("reject", "there is no target pose")
    if pose.get("frame", "world") != "world":
        return _Answer("abstain", "the pose is not in the world frame")
    target = _point(pose)
    if target is None or any(abs(value) > WORKSPACE_M for value in target):
        return _Answer("reject", "the pose is not finite or lies outside the workspace")
    evidence = request.evidence
    here = request.observation.robot.eef_xyz_m
    candidate = evidence.active_grasp_candidate
    compiled = candidate.compiled if candidate is not None else None
    if compiled is not None and compiled.frame == "world":
        for name, xyz in (("hover", compiled.hover_xyz_m), ("contact", compiled.contact_xyz_m)):
            if _near(target, xyz, SAME_POSE_M):
                if _same_orientation(pose, compiled.roll_pitch_yaw_deg):
                    return _Answer("approve", f"it is the compiled {name} pose of the candidate")
                return _Answer("reject", f"the orientation of the {name} pose was edited")
    sideways = math.dist(target[:2], here[:2])
    if target[2] >= here[2] and sideways <= RISE_DRIFT_M:
        return _Answer("approve", "it rises straight from where the gripper is")
    if evidence.gripper.holds_something and _over_a_goal(target, evidence):
        return _Answer("approve", "it carries what is held to a measured place")
    if evidence.selection is None and compiled is None:
        return _Answer("abstain", "no detection and no candidate account for this pose")
    if compiled is None:
        return _Answer("abstain", "the active candidate was not compiled to a pose")
    return _Answer("reject", "the pose is none the evidence accounts for")


def _judge_gripper(request: _Request) -> _Answer:
    evidence = request.evidence
    here = request.observation.robot.eef_xyz_m
    candidate = evidence.active_grasp_candidate
    # After a miss another candidate is active, but the fingers still stand at the former one's.
    compiled = (candidate.compiled if candidate is not None else None) or evidence.last_compiled
    position = request.parameters.get("position")
    if position == 1:
        held = evidence.gripper.holds_something
        aloft = compiled is not None and here[2] > compiled.contact_xyz_m[2] + LOW_M
        if held and aloft and not _over_a_goal(here, evidence):
            return _Answer("reject", "what is held would fall where nobody measured a goal")
        return _Answer("approve", "opening the gripper here moves nothing else")
    if position == 0:
        if compiled is None:
            return _Answer("abstain", "no compiled candidate says what the fingers close on")
        if _near(here, compiled.contact_xyz_m, NEAR_CONTACT_M):
            return _Answer("approve", "the gripper is at the candidate's contact pose")
        return _Answer("reject", "the gripper is not at the candidate's contact pose")
    return _Answer("reject", "position must be 0 or 1")


def _over_a_goal(point: Vector, evidence: _Evidence) -> bool:
    selected = evidence.selection.label if evidence.selection is not None else None
    return any(
        each.min_xyz_m[0] - OVER_GOAL_M <= point[0] <= each.max_xyz_m[0] + OVER_GOAL_M
        and each.min_xyz_m[1] - OVER_GOAL_M <= point[1] <= each.max_xyz_m[1] + OVER_GOAL_M
        and point[2] >= each.min_xyz_m[2]
        for each in evidence.measured
        if each.label != selected
    )


def _point(pose: JsonObject) -> Vector | None:
    values: list[float] = []
    for axis in "xyz":
        value = pose.get(axis)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not math.isfinite(value):
            return None
        values.append(float(value))
    return values[0], values[1], values[2]


def _near(first: Vector, second: Vector, within_m: float) -> bool:
    return all(abs(a - b) <= within_m for a, b in zip(first, second, strict=True))


def _same_orientation(pose: JsonObject, compiled: Vector) -> bool:
    """A pose without angles keeps the arm's own, which only the simulator can judge."""
    for name, wanted in zip(("roll", "pitch", "yaw"), compiled, strict=True):
        value = pose.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        turn = abs(float(value) - wanted) % 360
        if min(turn, 360 - turn) > SAME_ANGLE_DEG:
            return False
    return True
