"""`python -m openeta_exp.embedded.models`: serve the scripted models on this machine."""

from __future__ import annotations

import argparse
import json
import sys

import uvicorn

from openeta_exp.embedded.listening import listen
from openeta_exp.embedded.models.server import create_app
from openeta_exp.wire.model_faults import FaultPlan, parse_faults

KEEP_ALIVE_S = 75
"""Longer than a planner pauses between turns, so that its connection survives."""


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    # Bound before the address is announced: whoever reads the line can connect at once.
    listener = listen(options.host, options.port)
    host, port = listener.getsockname()[:2]
    sys.stdout.write(json.dumps({"url": f"http://{host}:{port}/v1"}) + "\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        create_app(faults=options.faults),
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m openeta_exp.embedded.models",
        description="Serve the scripted models behind an OpenAI-compatible endpoint and print "
        "one JSON line with its url.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--faults",
        type=_faults,
        default=FaultPlan(),
        help="failures and delays, such as latency=0.2,rate_limit@1-3,retry_after=2",
    )
    return parser


def _faults(line: str) -> FaultPlan:
    try:
        return parse_faults(line)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    main()
