"""The server as a client meets it: in memory, over streamable HTTP, over SSE, over stdio."""

from __future__ import annotations

import json

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

from openeta_exp.embedded.simulator.gl import Gl, environment_with
from openeta_exp.embedded.simulator.mcp_server import build_server
from openeta_exp.embedded.simulator.replies import (
    CloseReply,
    CreateReply,
    MotionReply,
    Observation,
    StepReply,
)
from openeta_exp.embedded.simulator.service import SimulatorOptions, SimulatorService
from tests.embedded.simulator.servers import command, http_server

pytestmark = pytest.mark.anyio

CAN = "openeta/tabletop_pick_can_basket-v0"
TOOLS = {
    "list_envs",
    "search_envs",
    "create_env",
    "reset_env",
    "step_env",
    "move_to",
    "follow_eef_trajectory",
    "gripper_open",
    "gripper_close",
    "observe_env",
    "render_env",
    "close_env",
    "list_active_envs",
}


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def call(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    text = text_of(result)
    assert "error" not in json.loads(text), text[:300]
    return text


async def play(client: Client) -> MotionReply:
    """Create, reset, move, grip, close: what every client does."""
    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
    created = CreateReply.from_json(
        await call(
            client,
            "create_env",
            env_id=CAN,
            seed=7,
            image_width=64,
            image_height=48,
            include_objects=True,
            from_the_future="ignored",
        )
    )
    ids = {"handle": created.handle, "session_id": created.session_id}
    first = Observation.from_json(await call(client, "reset_env", **ids))
    assert first.metadata.seed == 7
    assert [camera.frame_id for camera in first.cameras] == ["agentview"]
    x, y, z = first.robot.end_effector_pose.xyz
    moved = MotionReply.from_json(await call(client, "move_to", **ids, x=x + 0.05, y=y, z=z))
    assert moved.reached_target
    closed = StepReply.from_json(await call(client, "gripper_close", **ids, num_steps=12))
    assert not closed.observation.robot.gripper_state.open
    assert not CloseReply.from_json(await call(client, "close_env", **ids)).already_closed
    return moved


async def test_an_in_memory_client_plays_an_episode() -> None:
    async with (
        SimulatorService.running(SimulatorOptions(max_envs=1)) as service,
        Client(build_server(service)) as client,
    ):
        await play(client)


async def test_streamable_http_and_sse_reach_the_same_server() -> None:
    with http_server() as (_, ready):
        async with Client(ready.url) as client:
            over_http = await play(client)
        async with Client(sse_client(ready.sse_url)) as client:
            over_sse = await play(client)

    assert over_http == over_sse


async def test_stdio_serves_one_client() -> None:
    program, *arguments = command("--transport", "stdio", "--quality", "fast")
    parameters = StdioServerParameters(
        command=program, args=arguments, env=environment_with(Gl.NONE)
    )
    async with Client(stdio_client(parameters)) as client:
        await play(client)
