"""Scenes the cases of an evaluation take place in: made by numbers, the same every time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import pi

from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import Observation, RobotState
from openeta_exp.domain.supervision import ActionContext
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolSpec

Vector = tuple[float, float, float]

TARGETS = (
    "can", "box", "bottle", "cup", "bowl", "tomato sauce", "cream cheese", "butter", "milk",
    "ketchup", "red cube", "orange juice",
)  # fmt: skip
GOALS = ("basket", "plate", "shelf", "tray", "wooden crate")

TOOLS = {
    "move_to": "Move the end effector to a pose.",
    "gripper_control": "Close (position 0) or open (position 1) the gripper.",
    "follow_eef_trajectory": "Move through poses in order.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One thing to be moved to one place, and how far that has come.

    Attributes:
        here: Where the gripper is, world frame, metres.
        holds: Whether it holds the target.
    """

    target: str
    goal: str
    contact: Vector
    hover: Vector
    angles_deg: Vector
    goal_min: Vector
    goal_max: Vector
    here: Vector
    holds: bool = False
    candidate: str = "grasp_000"

    @property
    def task(self) -> str:
        return f"pick up the {self.target} and place it in the {self.goal}"

    @property
    def over_goal(self) -> Vector:
        low, high = self.goal_min, self.goal_max
        return (low[0] + high[0]) / 2, (low[1] + high[1]) / 2, high[2] + 0.2


def scene(number: int) -> Scene:
    """Scene by number: targets, goals and places change with it."""
    draw = random.Random(number)
    x, y = draw.uniform(-0.15, 0.15), draw.uniform(-0.25, -0.05)
    z = draw.uniform(0.03, 0.10)
    goal_x, goal_y = draw.uniform(-0.1, 0.1), draw.uniform(0.15, 0.30)
    hover = (round(x, 4), round(y, 4), round(z + 0.12, 4))
    return Scene(
        target=TARGETS[number % len(TARGETS)],
        goal=GOALS[number % len(GOALS)],
        contact=(hover[0], hover[1], round(z, 4)),
        hover=hover,
        angles_deg=(180.0, 0.0, round(draw.uniform(-80, 80), 1)),
        goal_min=(goal_x - 0.08, goal_y - 0.08, 0.0),
        goal_max=(goal_x + 0.08, goal_y + 0.08, 0.09),
        here=(round(draw.uniform(-0.1, 0.1), 4), round(draw.uniform(-0.05, 0.05), 4), 0.4),
        candidate=f"grasp_{number % 4:03d}",
    )


def pose(xyz: Vector, angles_deg: Vector | None = None) -> JsonObject:
    """A `move_to` call's arguments."""
    target: JsonObject = dict(zip("xyz", xyz, strict=True))
    if angles_deg is not None:
        target |= dict(zip(("roll", "pitch", "yaw"), angles_deg, strict=True))
    return {"target_pose": target, "num_steps": 60, "tolerance": 0.008}


def evidence(of: Scene, *, selected: str | None = "", compiled: bool = True) -> JsonObject:
    """What the host knows of the scene.

    Args:
        selected: Label of the selected detection; empty is the target, None is no detection.
        compiled: Whether the active candidate was compiled to poses.
    """
    label = of.target if selected == "" else selected
    return {
        "scene_epoch": 3,
        "cameras": [{"frame_id": "agentview", "rgb_sha256": "0" * 64}],
        "selection": None
        if label is None
        else {
            "detection_id": "detection_000",
            "label": label,
            "prompt": label,
            "score": 0.93,
            "bbox_xyxy": [100, 90, 140, 150],
            "frame_id": "agentview",
            "frame_rgb_sha256": "0" * 64,
            "scene_epoch": 0,
        },
        "active_grasp_candidate": None
        if label is None
        else {
            "id": of.candidate,
            "rank": int(of.candidate[-1]),
            "attempts": 1 + int(of.candidate[-1] != "0"),
            "state": "accepted" if of.holds else "active",
            "score": 0.81,
            "width_m": 0.06,
            "compiled": _compiled(of) if compiled else None,
        },
        "last_compiled": _compiled(of) if label is not None and compiled else None,
        "measured": [
            {
                "detection_id": "detection_001",
                "label": of.goal,
                "min_xyz_m": list[JsonValue](of.goal_min),
                "max_xyz_m": list[JsonValue](of.goal_max),
                "scene_epoch": 0,
            }
        ],
        "gripper": {
            "last_command": 0 if of.holds else 1,
            "openness": 0.6 if of.holds else 1.0,
            "holds_something": of.holds,
        },
    }


def _compiled(of: Scene) -> JsonObject:
    return {
        "candidate_id": of.candidate,
        "frame": "world",
        "hover_xyz_m": list[JsonValue](of.hover),
        "contact_xyz_m": list[JsonValue](of.contact),
        "roll_pitch_yaw_deg": list[JsonValue](of.angles_deg),
    }


def observation(of: Scene) -> Observation:
    """What is seen, without pixels: no object list either, as some simulators give none."""
    return Observation(
        task=of.task,
        cameras=(),
        robot=RobotState(
            eef_xyz_m=of.here,
            eef_quat_xyzw=(1.0, 0.0, 0.0, 0.0),
            gripper_openness=0.6 if of.holds else 1.0,
            joint_positions=(0.0, -pi / 4),
        ),
        facts={},
    )


def proposed(
    of: Scene,
    tool: str,
    arguments: JsonObject,
    *,
    known: JsonObject | None = None,
    task: str | None = None,
    reasoning: str = "The next step of the skill.",
) -> ActionContext:
    """A call as the gate would put it before a reviewer."""
    return ActionContext(
        task=of.task if task is None else task,
        session_id="evaluation",
        execution_id="evaluation",
        index=1,
        tool=ToolSpec(
            name=tool,
            description=TOOLS[tool],
            effect=ToolEffect.WORLD_MUTATING,
            parameters={"type": "object"},
        ),
        call=ToolCall(name=tool, arguments=arguments),
        observation=observation(of),
        evidence=evidence(of) if known is None else known,
        answers=(),
        reasoning=reasoning,
    )
