"""What a planner is told, as text: the system prompt and one JSON object per turn."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from openeta_exp.domain.grasp_strategy import GraspStrategy
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import CameraFrame, Observation
from openeta_exp.domain.skill import Skill
from openeta_exp.domain.tool import ToolResult, ToolSpec
from openeta_exp.domain.turn import TurnContext

SCHEMA_VERSION = "openeta.planner_context.v1"
TOOLS_HEADING = "# Tools"
SKILL_HEADING = "# Skill: "
STRATEGIES_HEADING = "# Grasp strategies"
MAX_SKILL_CHARACTERS = 8000
SKILL_CUT_NOTE = "[cut: use read_skill to read the rest]"


def render_system(
    prompt: str,
    *,
    tools: Sequence[ToolSpec],
    skills: Sequence[Skill],
    strategies: Sequence[GraspStrategy],
) -> str:
    """The system message: prompt, tools, selected skills and grasp strategies.

    Skills share `MAX_SKILL_CHARACTERS`; one that does not fit is cut and says so, and the
    planner may read it whole with `read_skill`.
    """
    parts = [prompt.strip(), f"{TOOLS_HEADING}\n{_tools_text(tools)}"]
    left = MAX_SKILL_CHARACTERS
    for skill in skills:
        text = skill.content
        if len(text) > left:
            text = f"{text[:left]}\n{SKILL_CUT_NOTE}"
        left = max(0, left - len(skill.content))
        parts.append(f"{SKILL_HEADING}{skill.name}\n{text}")
    parts.append(f"{STRATEGIES_HEADING}\n{_strategies_text(strategies)}")
    return "\n\n".join(parts)


def _tools_text(tools: Sequence[ToolSpec]) -> str:
    rows: list[JsonValue] = [
        {
            "name": tool.name,
            "effect": tool.effect.value,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        for tool in tools
    ]
    return "\n".join(json.dumps(row) for row in rows)


def _strategies_text(strategies: Sequence[GraspStrategy]) -> str:
    return "\n".join(
        strategy.model_dump_json(exclude={"provenance", "lifecycle"}) for strategy in strategies
    )


def render_turn(
    context: TurnContext, *, task: str, attempt: int = 0, errors: Sequence[str] = ()
) -> str:
    """The last user message: everything that is true now."""
    value: JsonObject = {
        "schema_version": SCHEMA_VERSION,
        "instruction": task,
        "tool_context": {
            "turn": context.turn,
            "remaining_turns": context.remaining_turns,
            "remaining_tool_calls": context.remaining_tool_calls,
            "observation": observation_json(context.observation),
            "current_camera_artifacts": [
                {"frame_id": each.frame_id, "kind": each.kind, "path": each.path}
                for each in context.artifacts
            ],
            "results": [result_json(result) for result in context.results],
            "feedback": list(context.feedback),
            "host_state": context.host_state,
        },
        "attempt": attempt,
        "validation_errors": list(errors),
    }
    return json.dumps(value)


def render_past_turn(context: TurnContext) -> str:
    """What is kept of a turn once it is over: what the calls did, not what was seen."""
    value: JsonObject = {
        "turn": context.turn,
        "results": [result_json(result) for result in context.results],
        "feedback": list(context.feedback),
    }
    return json.dumps(value)


def observation_json(observation: Observation) -> JsonObject:
    """An observation without its pixels."""
    robot = observation.robot
    return {
        "cameras": [_camera_json(camera) for camera in observation.cameras],
        "robot": {
            "eef_xyz_m": list(robot.eef_xyz_m),
            "eef_quat_xyzw": None if robot.eef_quat_xyzw is None else list(robot.eef_quat_xyzw),
            "gripper_openness": robot.gripper_openness,
        },
        "objects": [
            {
                "name": each.name,
                "position_m": None if each.position_m is None else list(each.position_m),
            }
            for each in observation.objects[:8]
        ],
    }


def _camera_json(camera: CameraFrame) -> JsonObject:
    k = camera.intrinsics
    return {
        "frame_id": camera.frame_id,
        "width": camera.width,
        "height": camera.height,
        "intrinsics": {"fx": k.fx, "fy": k.fy, "cx": k.cx, "cy": k.cy},
        "has_depth": camera.depth_png is not None,
    }


def result_json(result: ToolResult) -> JsonObject:
    """One tool result as the planner reads it."""
    return {
        "tool": result.call.name,
        "success": result.success,
        "outputs": result.outputs,
        "diagnostics": [
            {"code": each.code, "message": each.message} for each in result.diagnostics
        ],
    }
