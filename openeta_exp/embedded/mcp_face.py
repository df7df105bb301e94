"""What the embedded MCP servers share: how tools are listed and answer, and their HTTP face."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Protocol

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openeta_exp.domain.identity import JsonObject

MEBIBYTE = 1024 * 1024
_LOOPBACK = TransportSecuritySettings(
    enable_dns_rebinding_protection=True,
    allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
    allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
)


class NamedTool(Protocol):
    """What the list of tools says of one of them."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def arguments(self) -> type[BaseModel]: ...


CallTool = Callable[[str, JsonObject], Awaitable[CallToolResult]]
"""Runs the tool of a name with the arguments given; the name is one of those listed."""


def text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def mcp_server(name: str, tools: Mapping[str, NamedTool], call: CallTool) -> Server:
    """An MCP server of these tools, by their names. Serves any number of connections.

    An unknown tool is an `isError` result.
    """
    # Made once: over HTTP the SDK wants a tool's schema at every call.
    listed = ListToolsResult(
        tools=[
            Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.arguments.model_json_schema(),
            )
            for tool in tools.values()
        ]
    )
    schemas = {tool.name: tool.input_schema for tool in listed.tools}

    async def list_tools(
        _context: ServerRequestContext, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return listed

    async def call_tool(
        _context: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult:
        if params.name not in tools:
            return text_result(f"Unknown tool: {params.name}", is_error=True)
        return await call(params.name, params.arguments or {})

    return Server(
        name,
        version=_version(),
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What a server takes over HTTP.

    Attributes:
        loopback_only: Refuse requests that name another host, which is what keeps a web page from
            reaching a server on its reader's own machine.
        max_body_bytes: Of one request.
        session_idle_s: When a session without requests is forgotten; None never.
    """

    loopback_only: bool = True
    max_body_bytes: int = 4 * MEBIBYTE
    session_idle_s: float | None = 1800.0


@asynccontextmanager
async def mcp_routes(server: Server, limits: HttpLimits) -> AsyncIterator[list[BaseRoute]]:
    """`/mcp` and `/sse`, with the sessions running while inside.

    A mounted app's own lifespan is never run by its host, so what has to be started is started
    here and not in one.
    """
    security = _LOOPBACK if limits.loopback_only else None
    sessions = StreamableHTTPSessionManager(
        app=server,
        json_response=True,
        security_settings=security,
        max_request_body_size=limits.max_body_bytes,
        session_idle_timeout=limits.session_idle_s,
    )
    sse = SseServerTransport(
        "/sse/messages/", security_settings=security, max_request_body_size=limits.max_body_bytes
    )

    async def open_sse(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as streams:
            read, write = streams
            await server.run(read, write, server.create_initialization_options())
        return Response()

    async with sessions.run():
        yield [
            Route("/mcp", endpoint=_UntilHungUp(StreamableHTTPASGIApp(sessions))),
            Route("/sse", endpoint=open_sse, methods=["GET"]),
            Mount("/sse/messages/", app=sse.handle_post_message),
        ]


class _UntilHungUp:
    """Cancels a request whose client has hung up.

    The SDK goes on with it where it answers in plain JSON, and an environment that nobody is told
    of would keep its place until it is swept.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        heard, hearing = anyio.create_memory_object_stream[Message](math.inf)

        async def listen(scope_of_request: anyio.CancelScope) -> None:
            while True:
                message = await receive()
                heard.send_nowait(message)
                if message["type"] == "http.disconnect":
                    scope_of_request.cancel()
                    return

        async with heard, hearing, anyio.create_task_group() as group:
            group.start_soon(listen, group.cancel_scope)
            await self._app(scope, hearing.receive, send)
            group.cancel_scope.cancel()


def _version() -> str:
    try:
        return metadata.version("openeta_exp")
    except metadata.PackageNotFoundError:
        return ""
