"""A web server that says on standard output when it listens."""

from __future__ import annotations

import socket
import sys

import uvicorn


class AnnouncingServer(uvicorn.Server):
    """Writes one line once connections are accepted; whoever reads it can connect at once."""

    def __init__(self, config: uvicorn.Config, line: str) -> None:
        super().__init__(config)
        self._line = line

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        sys.stdout.write(self._line + "\n")
        sys.stdout.flush()
