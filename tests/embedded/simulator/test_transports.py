"""The server as a client meets it: in memory, over streamable HTTP, over SSE, over stdio."""

from __future__ import annotations

import json
import socket

import anyio
import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent
from starlette.applications import Starlette
from starlette.routing import Mount

from openeta_exp.embedded.simulator.asgi import serving
from openeta_exp.embedded.simulator.gl import Gl, environment_with
from openeta_exp.embedded.simulator.mcp_server import build_server
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.replies import (
    CloseReply,
    CreateReply,
    ErrorReply,
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


async def test_a_host_can_mount_the_server_under_a_path_of_its_own() -> None:
    options = SimulatorOptions(max_envs=1, quality=Quality.FAST)
    async with SimulatorService.running(options) as service, serving(service) as app:
        listener = socket.create_server(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        host = Starlette(routes=[Mount("/simulator", app=app)])
        server = uvicorn.Server(uvicorn.Config(host, log_level="warning", lifespan="off"))
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            async with Client(f"{origin}/simulator/mcp") as client:
                over_http = await play(client)
            async with Client(sse_client(f"{origin}/simulator/sse")) as client:
                over_sse = await play(client)
            server.should_exit = True

    assert over_http == over_sse


async def test_two_clients_share_a_server_without_seeing_each_other() -> None:
    options = SimulatorOptions(max_envs=2, quality=Quality.FAST)
    async with SimulatorService.running(options) as service:
        server = build_server(service)
        motions: list[MotionReply] = []

        async def one() -> None:
            async with Client(server) as client:
                motions.append(await play(client))

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            group.start_soon(one)

    assert motions[0] == motions[1]


async def test_an_unfit_call_is_an_error_result_and_a_refusal_a_reply() -> None:
    options = SimulatorOptions(max_envs=1, gl_candidates=())
    async with (
        SimulatorService.running(options) as service,
        Client(build_server(service)) as client,
    ):
        unfit = await client.call_tool("move_to", {"handle": "h", "x": "far", "y": 0, "z": 0})
        half = await client.call_tool(
            "move_to", {"handle": "h", "x": 0, "y": 0, "z": 0, "roll": 180}
        )
        unknown = await client.call_tool("fly", {})
        refused = await client.call_tool("move_to", {"handle": "h", "x": 0, "y": 0, "z": 0})

    assert [unfit.is_error, half.is_error, unknown.is_error] == [True, True, True]
    assert "x" in text_of(unfit)
    assert "give roll, pitch and yaw together" in text_of(half)
    assert text_of(unknown) == "Unknown tool: fly"
    assert not refused.is_error
    reply = ErrorReply.from_json(text_of(refused))
    assert (reply.error, reply.code, reply.fatal) == ("Unknown: h", "unknown_handle", False)


async def test_stdio_serves_one_client() -> None:
    program, *arguments = command("--transport", "stdio", "--quality", "fast")
    parameters = StdioServerParameters(
        command=program, args=arguments, env=environment_with(Gl.NONE)
    )
    async with Client(stdio_client(parameters)) as client:
        await play(client)
