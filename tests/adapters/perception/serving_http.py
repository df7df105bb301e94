"""An ASGI app on loopback for the length of a block."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from starlette.types import ASGIApp

from openeta_exp.embedded.listening import listen


class _Told(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@asynccontextmanager
async def on_loopback(app: ASGIApp, *, port: int = 0) -> AsyncIterator[int]:
    """Serve and give the port."""
    listener = listen("127.0.0.1", port)
    config = uvicorn.Config(
        app, log_level="error", lifespan="off", access_log=False, timeout_graceful_shutdown=1
    )
    server = _Told(config)
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listener])
        await server.ready.wait()
        try:
            yield int(listener.getsockname()[1])
        finally:
            server.should_exit = True
