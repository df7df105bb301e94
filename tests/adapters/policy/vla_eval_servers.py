"""Real vla-eval model servers, each version in an environment of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MODEL = Path(__file__).with_name("noisy_model.py")


def environment(version: str) -> Path:
    """Python of an environment with that version; made once per machine, then reused."""
    folder = Path(tempfile.gettempdir()) / "openeta-vla-eval" / version
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        package = f"vla-eval=={version}"
        uv = shutil.which("uv")
        if uv is not None:
            subprocess.run([uv, "venv", "-q", "-p", sys.executable, folder], check=True)
            subprocess.run([uv, "pip", "install", "-q", "-p", python, package], check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
        (folder / "complete").touch()
    return python


@contextmanager
def real_server(version: str, *, chunk_size: int | None) -> Iterator[str]:
    """The address of a running server of that version."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [environment(version), _MODEL, str(port), str(chunk_size or 0)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    try:
        yield f"ws://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=10)
