"""`scripted-fixed-sequence`: the same five turns whatever it sees, to measure the harness alone."""

from __future__ import annotations

from collections.abc import Sequence

from openeta_exp.domain.decision import CallTools, Decision, Finish, Talk
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.tool import ToolCall
from openeta_exp.embedded.models.planner.view import ContextError, View, read_view
from openeta_exp.wire.agent_command import render_command

RISE_M = 0.05


def fixed_sequence(messages: Sequence[ModelMessage]) -> str:
    """Observe, rise by 5 cm, observe, close the gripper, claim the end: one call per turn."""
    try:
        decision = _decide(read_view(messages))
    except ContextError as error:
        decision = Talk(message=str(error))
    return render_command(decision)


def _decide(view: View) -> Decision:
    x, y, z = view.eef_xyz_m
    look = ToolCall(name="observe")
    rise = ToolCall(
        name="move_to",
        arguments={"target_pose": {"x": x, "y": y, "z": z + RISE_M}, "num_steps": 20},
    )
    close = ToolCall(name="gripper_control", arguments={"position": 0})
    calls = (look, rise, look, close)
    if view.turn >= len(calls):
        return Finish(reasoning="The sequence is over.")
    return CallTools(calls=(calls[view.turn],), reasoning=f"Turn {view.turn + 1} of 5.")
