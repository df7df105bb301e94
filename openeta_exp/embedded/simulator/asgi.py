"""The HTTP face: `/mcp`, `/sse`, `/frames/{sha256}` and `/health`, alone or mounted elsewhere."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openeta_exp.embedded.simulator.mcp_server import build_server
from openeta_exp.embedded.simulator.service import SimulatorService
from openeta_exp.errors import SimulatorError

_LOOPBACK = TransportSecuritySettings(
    enable_dns_rebinding_protection=True,
    allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
    allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
)


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


@asynccontextmanager
async def serving(
    service: SimulatorService, *, loopback_only: bool = True
) -> AsyncIterator[Starlette]:
    """The app, with its MCP sessions running; mount it anywhere while inside.

    `loopback_only` refuses requests that name another host, which is what keeps a web page
    from reaching a server on its reader's own machine.

    A mounted app's own lifespan is never run by its host, so what has to be started is started
    here and not in one. The service is started and ended by whoever made it.
    """
    server = build_server(service)
    security = _LOOPBACK if loopback_only else None
    sessions = StreamableHTTPSessionManager(
        app=server, json_response=True, security_settings=security
    )
    sse = SseServerTransport("/sse/messages/", security_settings=security)

    async def open_sse(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as streams:
            read, write = streams
            await server.run(read, write, server.create_initialization_options())
        return Response()

    async def frame(request: Request) -> Response:
        try:
            archive = await service.frame_archive(request.path_params["digest"])
        except SimulatorError as error:
            return JSONResponse({"error": str(error), "code": error.code}, status_code=503)
        if archive is None:
            return JSONResponse({"error": "not a frame of this server"}, status_code=404)
        return Response(archive, media_type="application/octet-stream")

    async def health(_request: Request) -> Response:
        counts = service.counts()
        return JSONResponse(
            {
                "status": "ok",
                "gl": service.gl.value,
                "quality": service.options.quality.value,
                "busy": counts.busy,
                "idle": counts.idle,
            }
        )

    app = Starlette(
        routes=[
            Route("/mcp", endpoint=_UntilHungUp(StreamableHTTPASGIApp(sessions))),
            Route("/sse", endpoint=open_sse, methods=["GET"]),
            Mount("/sse/messages/", app=sse.handle_post_message),
            Route("/frames/{digest}", endpoint=frame, methods=["GET"]),
            Route("/health", endpoint=health, methods=["GET"]),
        ]
    )
    async with sessions.run():
        yield app
