"""Real server processes for the tests, and how to see what they leave behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from pydantic import BaseModel, ConfigDict

from openeta_exp.embedded.simulator.gl import Gl, environment_with


class Ready(BaseModel):
    """The line a started server prints."""

    model_config = ConfigDict(extra="ignore")

    url: str
    sse_url: str
    frames_url: str
    pid: int
    gl: str
    quality: str


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "openeta_exp.embedded.simulator", *options]


@contextmanager
def http_server(*options: str) -> Iterator[tuple[subprocess.Popen[str], Ready]]:
    """A server of its own process, ended on the way out."""
    process = subprocess.Popen(
        command("--port", "0", "--max-envs", "2", "--quality", "fast", *options),
        stdout=subprocess.PIPE,
        text=True,
        env=environment_with(Gl.NONE),
    )
    try:
        yield process, Ready.model_validate_json(first_line(process.stdout))
    finally:
        process.kill()
        process.wait()


def first_line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()
