"""`python -m openeta_exp.embedded.simulator`: the simulator as a server of its own.

Over HTTP one JSON line on standard output says when and where it is ready:
`{"url", "sse_url", "frames_url", "pid", "gl", "quality", "max_envs", "transport"}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import uvicorn

from openeta_exp.embedded.announcing import AnnouncingServer
from openeta_exp.embedded.listening import listen
from openeta_exp.embedded.simulator.asgi import serving
from openeta_exp.embedded.simulator.gl import Gl
from openeta_exp.embedded.simulator.mcp_server import build_server
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.service import SimulatorOptions, SimulatorService

logger = logging.getLogger(__name__)


class _Http(AnnouncingServer):
    """Stops on a signal without passing it on.

    uvicorn raises the signal again once it has stopped, and that would end this process before
    the service around it has closed its environments.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


async def serve_http(options: SimulatorOptions, *, transport: str, host: str, port: int) -> None:
    """Serve until a signal asks to stop; then end every process."""
    listener = listen(host, port)
    port = listener.getsockname()[1]
    origin = f"http://{host}:{port}"
    async with (
        SimulatorService.running(options) as service,
        serving(service, loopback_only=host in ("127.0.0.1", "localhost", "::1")) as app,
    ):
        urls = {"url": f"{origin}/mcp", "sse_url": f"{origin}/sse"}
        ready = json.dumps(
            {
                **urls,
                "frames_url": f"{origin}/frames",
                "transport": transport,
                "pid": os.getpid(),
                "gl": service.gl.value,
                "quality": options.quality.value,
                "max_envs": options.max_envs,
            }
        )
        config = uvicorn.Config(
            app,
            log_level="warning",
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=2,
        )
        await _Http(config, ready).serve(sockets=[listener])


async def serve_stdio(options: SimulatorOptions) -> None:
    """Serve one client on standard input and output until it hangs up or a signal arrives."""
    from mcp.server.stdio import stdio_server

    async with SimulatorService.running(options) as service, anyio.create_task_group() as group:

        async def stop_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
                async for _ in received:
                    group.cancel_scope.cancel()

        group.start_soon(stop_on_signal)
        server = build_server(service)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


def main(arguments: list[str] | None = None) -> None:
    options = _parse(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    candidates = {
        "auto": (Gl.EGL, Gl.OSMESA),
        "none": (),
        **{gl.value: (gl,) for gl in (Gl.EGL, Gl.OSMESA)},
    }
    service = SimulatorOptions(
        max_envs=options.max_envs,
        quality=Quality(options.quality),
        gl_candidates=candidates[options.gl],
        call_timeout_s=options.call_timeout_s,
        idle_ttl_s=options.idle_ttl_s,
    )
    if options.transport == "stdio":
        anyio.run(serve_stdio, service)
    else:
        anyio.run(
            partial(
                serve_http,
                service,
                transport=options.transport,
                host=options.host,
                port=options.port,
            )
        )


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    defaults = SimulatorOptions()
    parser = argparse.ArgumentParser(prog="openeta_exp.embedded.simulator", description=__doc__)
    parser.add_argument(
        "--transport",
        choices=("streamable-http", "sse", "stdio"),
        default="streamable-http",
        help="over HTTP both /mcp and /sse are served; the choice is only reported",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--max-envs", type=int, default=defaults.max_envs)
    parser.add_argument(
        "--quality", choices=[quality.value for quality in Quality], default=defaults.quality.value
    )
    parser.add_argument("--gl", choices=("auto", "egl", "osmesa", "none"), default="auto")
    parser.add_argument("--call-timeout-s", type=float, default=defaults.call_timeout_s)
    parser.add_argument("--idle-ttl-s", type=float, default=defaults.idle_ttl_s)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
