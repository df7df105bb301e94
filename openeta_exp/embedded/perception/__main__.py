"""`python -m openeta_exp.embedded.perception`: the perception as a server of its own.

Over HTTP one JSON line on standard output says when and where it is ready:
`{"url", "sse_url", "transport", "pid"}`; `url` is the endpoint of the chosen transport's kind.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from functools import partial

import anyio
import uvicorn

from openeta_exp.embedded.announcing import AnnouncingServer
from openeta_exp.embedded.listening import listen
from openeta_exp.embedded.perception.asgi import serving
from openeta_exp.embedded.perception.frame_source import HttpFrameSource
from openeta_exp.embedded.perception.mcp_server import build_server
from openeta_exp.embedded.perception.service import PerceptionService


async def serve_http(frames_url: str, *, transport: str, host: str, port: int) -> None:
    """Serve until a signal asks to stop."""
    listener = listen(host, port)
    origin = f"http://{host}:{listener.getsockname()[1]}"
    urls = {"mcp": f"{origin}/mcp", "sse": f"{origin}/sse"}
    ready = json.dumps(
        {
            "url": urls["sse" if transport == "sse" else "mcp"],
            "sse_url": urls["sse"],
            "transport": transport,
            "pid": os.getpid(),
        }
    )
    async with HttpFrameSource(frames_url) as frames, serving(frames) as app:
        config = uvicorn.Config(
            app,
            log_level="warning",
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=2,
        )
        await AnnouncingServer(config, ready).serve(sockets=[listener])


async def serve_stdio(frames_url: str) -> None:
    """Serve one client on standard input and output until it hangs up."""
    from mcp.server.stdio import stdio_server

    async with HttpFrameSource(frames_url) as frames, stdio_server() as (read, write):
        server = build_server(PerceptionService(frames))
        await server.run(read, write, server.create_initialization_options())


def main(arguments: list[str] | None = None) -> None:
    options = _parse(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    if options.transport == "stdio":
        anyio.run(serve_stdio, options.frames_url)
    else:
        anyio.run(
            partial(
                serve_http,
                options.frames_url,
                transport=options.transport,
                host=options.host,
                port=options.port,
            )
        )


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="openeta_exp.embedded.perception", description=__doc__)
    parser.add_argument(
        "--transport",
        choices=("streamable-http", "sse", "stdio"),
        default="streamable-http",
        help="over HTTP both /mcp and /sse are served; the choice is reported as url",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--frames-url",
        required=True,
        help="where the simulator server tells what its frames show, such as "
        "http://127.0.0.1:8765/frames",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
