"""`python -m openeta_exp.embedded.host`: simulator, perception and models in one process.

Reads its options as one JSON line from standard input, answers with one JSON line of addresses
once it listens, and ends when standard input is closed: whoever started it and dies, however it
dies, takes it and every environment process along.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount

from openeta_exp.embedded.addresses import EmbeddedAddresses, HostOptions
from openeta_exp.embedded.announcing import AnnouncingServer
from openeta_exp.embedded.listening import listen
from openeta_exp.embedded.models.server import create_app
from openeta_exp.wire.model_faults import parse_faults

_KEEP_ALIVE_S = 600
"""Longer than a planner or a simulator pauses, so that connections survive."""


@asynccontextmanager
async def _routes(options: HostOptions) -> AsyncIterator[list[BaseRoute]]:
    """What is served, started, and ended on the way out."""
    async with AsyncExitStack() as stack:
        routes: list[BaseRoute] = []
        if options.simulator is not None:
            from openeta_exp.embedded.perception.asgi import serving as serving_perception
            from openeta_exp.embedded.simulator.asgi import serving as serving_simulator
            from openeta_exp.embedded.simulator.service import SimulatorService

            service = await stack.enter_async_context(
                SimulatorService.running(options.simulator.to_service())
            )
            simulator = await stack.enter_async_context(serving_simulator(service))
            perception = await stack.enter_async_context(serving_perception(service))
            routes += [Mount("/simulator", simulator), Mount("/perception", perception)]
        if options.models:
            routes.append(Mount("/models", create_app(faults=parse_faults(options.faults))))
        yield routes


async def serve(options: HostOptions) -> None:
    """Serve until standard input is closed."""
    listener = listen("127.0.0.1", 0)
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    addresses = EmbeddedAddresses(
        pid=os.getpid(),
        simulator_url=f"{origin}/simulator/mcp" if options.simulator else "",
        perception_url=f"{origin}/perception/mcp" if options.simulator else "",
        models_url=f"{origin}/models/v1" if options.models else "",
    )
    async with _routes(options) as routes:
        config = uvicorn.Config(
            Starlette(routes=routes),
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=2,
        )
        server = AnnouncingServer(config, addresses.to_json())
        async with anyio.create_task_group() as group:
            group.start_soon(_end_with_parent, server)
            await server.serve(sockets=[listener])
            group.cancel_scope.cancel()


async def _end_with_parent(server: uvicorn.Server) -> None:
    await anyio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
    server.should_exit = True


def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    options = HostOptions.from_json(sys.stdin.buffer.readline())
    anyio.run(serve, options)
    # A reader of standard input may still be waiting in its thread.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
