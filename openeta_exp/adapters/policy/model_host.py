"""Serves a `PredictModelServer` class over protocol 1, for vla-eval and for this package.

python -m openeta_exp.adapters.policy.model_host my_model:Server --port 8000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from openeta_exp.adapters.policy.model_session import (
    ModelSession,
    build_model_server,
    introduction,
)
from openeta_exp.errors import OpenEtaError
from openeta_exp.wire.vla_eval import (
    PROTOCOL_VERSION,
    Frame,
    FrameError,
    MessageType,
    pack,
    unpack,
)

logger = logging.getLogger(__name__)


class ModelHost:
    """Any number of clients; one prediction at a time, because they share one model."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._turn = asyncio.Lock()

    async def start(self, *, host: str, port: int) -> Server:
        return await serve(
            self._connection,
            host,
            port,
            process_request=_health,
            compression=None,
            max_size=None,
            ping_interval=None,
        )

    async def _connection(self, connection: ServerConnection) -> None:
        session = ModelSession(self._server, in_thread=True)
        try:
            async for message in connection:
                await self._answer(connection, session, message)
        except ConnectionClosed:
            logger.info("a client left without closing its connection")
        finally:
            await session.end({})

    async def _answer(
        self, connection: ServerConnection, session: ModelSession, message: bytes | str
    ) -> None:
        try:
            frame = unpack(message)
        except FrameError as error:
            await _send(connection, "error", {"error": str(error)}, seq=0)
            return
        refusal = _Refusal()
        with refusal:
            await self._handle(connection, session, frame)
        if refusal.reason is not None:
            logger.warning("%s failed: %s", frame.type, refusal.reason)
            await _send(connection, "error", {"error": refusal.reason}, seq=frame.seq)

    async def _handle(
        self, connection: ServerConnection, session: ModelSession, frame: Frame
    ) -> None:
        match frame.type:
            case "hello":
                hello = {
                    "harness_version": "openeta_exp",
                    "protocol_version": PROTOCOL_VERSION,
                    **introduction(self._server),
                }
                requires = getattr(self._server, "requires", None)
                if requires is not None:
                    hello["requires"] = list(requires)
                await _send(connection, "hello", hello, seq=frame.seq)
            case "episode_start":
                await session.start(frame.payload)
            case "observation":
                async with self._turn:
                    reply = await session.answer(frame.payload)
                await _send(connection, "action", reply, seq=frame.seq)
            case "episode_end":
                await session.end(frame.payload)
            case _:
                logger.warning("a client sent %s: %s", frame.type, frame.payload)


class _Refusal:
    """Keeps what the model raised, so that the client is told and the server goes on."""

    reason: str | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, ConnectionClosed) or not isinstance(error, Exception):
            return False
        name = "" if isinstance(error, OpenEtaError) else f"{type(error).__name__}: "
        self.reason = f"{name}{error}"
        return True


async def _send(
    connection: ServerConnection, kind: MessageType, payload: Mapping[str, Any], *, seq: int
) -> None:
    await connection.send(pack(kind, payload, seq=seq))


def _health(connection: ServerConnection, request: Request) -> Response | None:
    """`GET /health` says that the model is loaded; everything else becomes a WebSocket."""
    if request.path != "/health":
        return None
    response = connection.respond(HTTPStatus.OK, '{"status": "ok"}\n')
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = "application/json"
    return response


async def serve_model(server: Any, *, host: str, port: int, ready: Callable[[int], None]) -> None:
    """Serve until cancelled; `ready` is called with the port once clients may connect."""
    listening = await ModelHost(server).start(host=host, port=port)
    async with listening:
        ready(next(iter(listening.sockets)).getsockname()[1])
        await listening.wait_closed()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="import string of the model server class")
    parser.add_argument("--params", default="{}", help="keyword arguments, a JSON object")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 chooses a free one")
    parser.add_argument("--path", action="append", default=[], help="directory to import from")
    arguments = parser.parse_args()
    sys.path[:0] = [*arguments.path, str(Path.cwd())]
    server = build_model_server(arguments.target, json.loads(arguments.params))

    def ready(port: int) -> None:
        sys.stdout.write(f"serving on ws://{arguments.host}:{port}\n")
        sys.stdout.flush()

    asyncio.run(serve_model(server, host=arguments.host, port=arguments.port, ready=ready))


if __name__ == "__main__":
    main()
