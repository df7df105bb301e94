"""The HTTP face: `/mcp`, `/sse`, `/frames/{sha256}` and `/health`, alone or mounted elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openeta_exp.embedded.mcp_face import HttpLimits, mcp_routes
from openeta_exp.embedded.simulator.mcp_server import build_server
from openeta_exp.embedded.simulator.service import SimulatorService
from openeta_exp.errors import SimulatorError


@asynccontextmanager
async def serving(
    service: SimulatorService, *, loopback_only: bool = True
) -> AsyncIterator[Starlette]:
    """The app, with its MCP sessions running; mount it anywhere while inside.

    The service is started and ended by whoever made it.
    """

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

    limits = HttpLimits(loopback_only=loopback_only)
    async with mcp_routes(build_server(service), limits) as routes:
        yield Starlette(
            routes=[
                *routes,
                Route("/frames/{digest}", endpoint=frame, methods=["GET"]),
                Route("/health", endpoint=health, methods=["GET"]),
            ]
        )
