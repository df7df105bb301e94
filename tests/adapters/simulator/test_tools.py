"""What the agent's calls become on the wire."""

from __future__ import annotations

import pytest

from openeta_exp.adapters.simulator.tools import CallArgumentError, RemoteCall, remote_call
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.tool import ToolCall

POSE: JsonObject = {"x": 0.1, "y": -0.2, "z": 0.3}


def test_a_pose_is_sent_flat_with_the_limits_that_were_given() -> None:
    call = ToolCall(
        name="move_to", arguments={"target_pose": {**POSE, "frame": "world"}, "num_steps": 20}
    )

    assert remote_call(call) == RemoteCall(
        tool="move_to", arguments={"x": 0.1, "y": -0.2, "z": 0.3, "num_steps": 20}
    )


@pytest.mark.parametrize("name", ["move_to", "follow_eef_trajectory"])
@pytest.mark.parametrize("off", [False, 0, "false"])
def test_the_agent_cannot_switch_the_collision_check_off(name: str, off: object) -> None:
    arguments: JsonObject = {"target_pose": POSE, "trajectory": [{"xyz": [0.1, 0.2, 0.3]}]}
    call = ToolCall(name=name, arguments={**arguments, "enable_collision_check": off})

    with pytest.raises(CallArgumentError, match="collision check stays on"):
        remote_call(call)


@pytest.mark.parametrize(
    ("pose", "said"),
    [
        ({**POSE, "frame": "camera"}, "world frame, not 'camera'"),
        ({**POSE, "roll": 10.0}, "together"),
        ({"x": 0.1, "y": 0.2}, "z"),
        ("up", "x, y, z in metres"),
    ],
)
def test_a_pose_that_cannot_be_sent_is_explained(pose: object, said: str) -> None:
    with pytest.raises(CallArgumentError, match=said):
        remote_call(ToolCall(name="move_to", arguments={"target_pose": pose}))
