"""The HTTP face: `/mcp`, `/sse` and health at `/`, alone or mounted in another app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openeta_exp.embedded.mcp_face import MEBIBYTE, HttpLimits, mcp_routes
from openeta_exp.embedded.perception.mcp_server import build_server
from openeta_exp.embedded.perception.service import (
    BACKEND,
    GRASP_MODEL,
    SEGMENTATION_MODEL,
    PerceptionService,
)
from openeta_exp.embedded.simulator.frames import FrameSource

_LIMITS = HttpLimits(
    max_body_bytes=64 * MEBIBYTE,
    # Between two grasps of a paused batch may lie a night.
    session_idle_s=None,
)


@asynccontextmanager
async def serving(frames: FrameSource) -> AsyncIterator[Starlette]:
    """The app, with its MCP sessions running; mount it anywhere while inside."""

    async def health(_request: Request) -> Response:
        return JSONResponse(
            {
                "status": "ok",
                "backend": BACKEND,
                "models": {"sam3": SEGMENTATION_MODEL, "anygrasp": GRASP_MODEL},
            }
        )

    async with mcp_routes(build_server(PerceptionService(frames)), _LIMITS) as routes:
        yield Starlette(
            routes=[
                *routes,
                Route("/", endpoint=health, methods=["GET"]),
                Route("/health", endpoint=health, methods=["GET"]),
            ]
        )
