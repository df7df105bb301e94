"""The HTTP face: `/mcp`, `/sse` and health at `/`, alone or mounted in another app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from openeta_exp.embedded.perception.mcp_server import build_server
from openeta_exp.embedded.perception.service import (
    BACKEND,
    GRASP_MODEL,
    SEGMENTATION_MODEL,
    PerceptionService,
)
from openeta_exp.embedded.simulator.frames import FrameSource

_MAX_BODY_BYTES = 64 * 1024 * 1024
_LOOPBACK = TransportSecuritySettings(
    enable_dns_rebinding_protection=True,
    allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
    allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
)


@asynccontextmanager
async def serving(frames: FrameSource) -> AsyncIterator[Starlette]:
    """The app, with its MCP sessions running; mount it anywhere while inside.

    A mounted app's own lifespan is never run by its host, so what has to be started is started
    here and not in one.
    """
    server = build_server(PerceptionService(frames))
    sessions = StreamableHTTPSessionManager(
        app=server,
        json_response=True,
        security_settings=_LOOPBACK,
        max_request_body_size=_MAX_BODY_BYTES,
        # Between two grasps of a paused batch may lie a night.
        session_idle_timeout=None,
    )
    sse = SseServerTransport(
        "/sse/messages/", security_settings=_LOOPBACK, max_request_body_size=_MAX_BODY_BYTES
    )

    async def open_sse(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as streams:
            read, write = streams
            await server.run(read, write, server.create_initialization_options())
        return Response()

    async def health(_request: Request) -> Response:
        return JSONResponse(
            {
                "status": "ok",
                "backend": BACKEND,
                "models": {"sam3": SEGMENTATION_MODEL, "anygrasp": GRASP_MODEL},
            }
        )

    app = Starlette(
        routes=[
            Route("/", endpoint=health, methods=["GET"]),
            Route("/health", endpoint=health, methods=["GET"]),
            Route("/mcp", endpoint=StreamableHTTPASGIApp(sessions)),
            Route("/sse", endpoint=open_sse, methods=["GET"]),
            Mount("/sse/messages/", app=sse.handle_post_message),
        ]
    )
    async with sessions.run():
        yield app
