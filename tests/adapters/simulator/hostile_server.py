"""A simulator server that misbehaves as told, and a relay that drops connections."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openeta_exp.adapters.simulator.mcp_simulator import REQUIRED_TOOLS
from openeta_exp.domain.identity import JsonObject
from tests.adapters.perception.serving_http import on_loopback

TOOLS = tuple(sorted({*REQUIRED_TOOLS, "follow_eef_trajectory", "search_envs", "list_active_envs"}))

Answer = JsonObject | str | CallToolResult | Callable[[], Awaitable["Answer"]]
"""A JSON object, a text, a whole result, or a function that waits, raises or gives one."""


def png(width: int, height: int, *, mode: str = "RGB", noise: bytes = b"") -> str:
    """Base64 of an image; of `noise` where its pixels must not compress."""
    image = Image.frombytes(mode, (width, height), noise) if noise else None
    buffer = io.BytesIO()
    (image or Image.new(mode, (width, height))).save(buffer, format="PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


CAMERA: JsonObject = {
    "frame_id": "agentview",
    "rgb_base64": png(4, 3),
    "depth_base64": png(4, 3, mode="I;16"),
    "width": 4,
    "height": 3,
    "intrinsics": {"fx": 5.0, "fy": 5.0, "cx": 2.0, "cy": 1.5},
    "extrinsics": {"camera_frame": "opencv", "pos": [0, 0, 1], "mat": [1, 0, 0, 0, 1, 0, 0, 0, 1]},
}
OBSERVATION: JsonObject = {
    "task": "",
    "cameras": [CAMERA],
    "robot": {
        "joint_positions": [0.0],
        "end_effector_pose": {"xyz": [0.0, 0.0, 0.3], "quat_xyzw": [1.0, 0.0, 0.0, 0.0]},
        "gripper_state": {"openness": 0.5, "open": True},
    },
    "objects": [],
    "metadata": {"backend": "hostile", "state_digest": "0" * 64},
}
STEP: JsonObject = {
    "observation": OBSERVATION,
    "reward": 0.0,
    "terminated": False,
    "truncated": False,
}
HONEST: dict[str, Answer] = {
    "create_env": {"session_id": "s", "handle": "h"},
    "reset_env": OBSERVATION,
    "render_env": OBSERVATION,
    "move_to": {**STEP, "target": {"x": 0, "y": 0, "z": 0.3}, "end": {"xyz": [0, 0, 0.3]}},
    "follow_eef_trajectory": STEP,
    "gripper_open": STEP,
    "gripper_close": STEP,
    "close_env": {"ok": True, "already_closed": False, "cleanup_errors": []},
    "search_envs": {"results": [{"id": "env", "description": ""}]},
}


@dataclass
class Hostile:
    """Answers honestly, but for the tools in `answers`; remembers what it was asked."""

    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, JsonObject]] = field(default_factory=list)
    begun: dict[str, anyio.Event] = field(default_factory=dict)
    """Set at the first call of a tool."""
    url: str = ""

    def answering(self, answers: dict[str, Answer] | None = None) -> Hostile:
        """The same server with another mood and no memory."""
        self.answers, self.asked, self.begun = answers or {}, [], {}
        return self

    def times(self, tool: str) -> int:
        return Counter(name for name, _ in self.asked)[tool]

    def beginning(self, tool: str) -> anyio.Event:
        return self.begun.setdefault(tool, anyio.Event())

    async def answer(self, tool: str, arguments: JsonObject) -> CallToolResult:
        self.asked.append((tool, arguments))
        self.beginning(tool).set()
        given = self.answers.get(tool, HONEST.get(tool, {"error": f"Unknown: {tool}"}))
        while callable(given):
            given = await given()
        if isinstance(given, CallToolResult):
            return given
        return text(given if isinstance(given, str) else json.dumps(given))


def text(content: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=content)], is_error=is_error)


async def turns_of_the_loop() -> None:
    """Let every other task see what has happened. (`wait_all_tasks_blocked` looks every 100 ms,
    just as uvicorn wakes up every 100 ms, and may find it awake for a minute.)"""
    for _ in range(100):
        await anyio.lowlevel.checkpoint()


async def never() -> Answer:
    """An answer that does not come."""
    await anyio.sleep_forever()
    raise AssertionError


@asynccontextmanager
async def hosting(
    hostile: Hostile, *, port: int = 0, legacy: bool = False, json_response: bool = True
) -> AsyncIterator[int]:
    """Serve on `/mcp` and `/sse` and give the port.

    Args:
        legacy: Only know sessions that a handshake opens, as servers of the SDK 1.x do.
    """

    async def list_tools(
        _context: ServerRequestContext, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(
            tools=[Tool(name=tool, input_schema={"type": "object"}) for tool in TOOLS]
        )

    async def call_tool(
        _context: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult:
        return await hostile.answer(params.name, dict(params.arguments or {}))

    server = Server("hostile", on_list_tools=list_tools, on_call_tool=call_tool)
    sessions = StreamableHTTPSessionManager(app=server, json_response=json_response)
    sse = SseServerTransport("/sse/messages/")

    async def open_sse(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as streams:
            read, write = streams
            await server.run(read, write, server.create_initialization_options())
        return Response()

    app: ASGIApp = Starlette(
        routes=[
            Route("/mcp", endpoint=StreamableHTTPASGIApp(sessions)),
            Route("/sse", endpoint=open_sse, methods=["GET"]),
            Mount("/sse/messages/", app=sse.handle_post_message),
        ]
    )
    async with sessions.run(), on_loopback(undiscovered(app) if legacy else app, port=port) as on:
        yield on


def undiscovered(app: ASGIApp) -> ASGIApp:
    """Without the probe that newer clients begin with."""

    async def filtered(scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        messages: list[Message] = []
        if scope["type"] == "http" and scope["method"] == "POST":
            while not messages or messages[-1].get("more_body"):
                messages.append(await receive())
                body += messages[-1].get("body", b"")
        if b"server/discover" in body:
            await Response(status_code=404)(scope, receive, send)
            return
        left = iter(messages)

        async def again() -> Message:
            message = next(left, None)
            return await receive() if message is None else message

        await app(scope, again, send)

    return filtered


@dataclass
class Relay:
    """A port in front of a server, whose connections can be cut."""

    target: int
    connections: list[asyncio.StreamWriter] = field(default_factory=list)
    """Towards the client, in the order they were opened."""
    accepted: int = 0

    def cut(self, *, only: int | None = None) -> None:
        """Reset one connection, or all that are open."""
        chosen = self.connections if only is None else [self.connections[only]]
        for connection in chosen:
            connection.transport.abort()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.connections.append(writer)
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", self.target)
            forth = asyncio.create_task(_pump(reader, ours))
            await _pump(theirs, writer)
            forth.cancel()
            ours.close()
        except OSError:
            pass
        finally:
            self.connections.remove(writer)
            writer.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(65536):
            sink.write(chunk)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


@asynccontextmanager
async def relaying(target: int) -> AsyncIterator[tuple[Relay, str]]:
    """Gives the relay and the origin it listens on."""
    relay = Relay(target)
    server = await asyncio.start_server(relay.carry, "127.0.0.1", 0)
    try:
        yield relay, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        relay.cut()
