"""A simulator server without physics: the tool contract, two fixed RGB-D frames, no delay.

    python scripts/benchmarks/null_simulator.py        prints one JSON line with its url

The environment ends with reward 1 at the first gripper call, so an episode takes five turns.
"""

from __future__ import annotations

import base64
import io
import json
import socket
import sys
import uuid

import numpy as np
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool
from PIL import Image
from starlette.applications import Starlette
from starlette.routing import Route

SIZE = 256
TOOLS = (
    "create_env",
    "reset_env",
    "render_env",
    "move_to",
    "follow_eef_trajectory",
    "gripper_open",
    "gripper_close",
    "close_env",
    "search_envs",
)


def png(pixels: np.ndarray) -> str:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG", compress_level=1)
    return base64.b64encode(stream.getvalue()).decode("ascii")


def camera(name: str, seed: int) -> dict[str, object]:
    """A frame as detailed as a rendered one: smooth shades with some noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    shades = np.stack([x, y, (x + y) // 2], axis=-1) + rng.integers(0, 6, (SIZE, SIZE, 3))
    depth = (800 + y + rng.integers(0, 3, (SIZE, SIZE))).astype(np.uint16)
    return {
        "frame_id": name,
        "rgb_base64": png(shades.clip(0, 255).astype(np.uint8)),
        "depth_base64": png(depth),
        "width": SIZE,
        "height": SIZE,
        "intrinsics": {"fx": 309.0, "fy": 309.0, "cx": 128.0, "cy": 128.0},
        "extrinsics": {
            "camera_frame": "opencv",
            "pos": [0.0, 0.0, 1.0],
            "mat": [1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, -1.0],
        },
    }


OBSERVATION = {
    "task": "",
    "cameras": [camera("agentview", 0), camera("wrist", 1)],
    "robot": {
        "joint_positions": [0.0] * 7,
        "end_effector_pose": {"xyz": [0.0, 0.0, 0.3], "quat_xyzw": [1.0, 0.0, 0.0, 0.0]},
        "gripper_state": {"openness": 0.5, "open": True},
    },
    "objects": [],
    "metadata": {"backend": "null", "state_digest": "0" * 64},
}
SEEN = json.dumps(OBSERVATION)
STEP = f'{{"observation":{SEEN},"reward":%s,"terminated":%s,"truncated":false,"info":{{}}}}'
REPLIES = {
    "reset_env": SEEN,
    "render_env": SEEN,
    "move_to": '{"target":{"x":0,"y":0,"z":0.3},"end":{"xyz":[0,0,0.3]},"steps_executed":1,'
    f'"reached_target":true,"reward":0.0,"terminated":false,"truncated":false,"observation":{SEEN}}}',
    "gripper_open": STEP % ("0.0", "false"),
    "gripper_close": STEP % ("1.0", "false"),
    "close_env": '{"ok":true,"already_closed":false,"cleanup_errors":[]}',
    "search_envs": '{"results":[{"id":"openeta/null-v0","description":"no physics"}]}',
}


async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
    if params.name == "create_env":
        text = json.dumps({"session_id": uuid.uuid4().hex, "handle": uuid.uuid4().hex[:12]})
    else:
        text = REPLIES[params.name]
    return CallToolResult(content=[TextContent(type="text", text=text)])


SCHEMAS: dict[str, dict[str, object]] = {name: {"type": "object"} for name in TOOLS}


async def list_tools(_context: object, _params: object) -> ListToolsResult:
    return ListToolsResult(
        tools=[Tool(name=name, input_schema=schema) for name, schema in SCHEMAS.items()]
    )


async def main() -> None:
    server: Server[object] = Server(
        "null",
        get_tool_input_schema=SCHEMAS.get,  # Or the SDK lists all tools for every call.
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    sessions = StreamableHTTPSessionManager(app=server, json_response=True)
    listener = socket.create_server(("127.0.0.1", 0))
    # As `openeta_exp.embedded.listening` does, or every reply waits 45 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sys.stdout.write(
        json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}) + "\n"
    )
    sys.stdout.flush()
    app = Starlette(routes=[Route("/mcp", endpoint=StreamableHTTPASGIApp(sessions))])
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    async with sessions.run():
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    import anyio

    anyio.run(main)
