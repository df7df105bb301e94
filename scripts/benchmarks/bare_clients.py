"""The calls of the harness benchmark by the two clients alone: nothing read, kept or checked."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import anyio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent
from openai import AsyncOpenAI

from scripts.benchmarks.null_simulator import camera

TOOLS = ("render_env", "move_to", "render_env", "gripper_close", None)
"""What follows each answer of `scripted-fixed-sequence`; the last one ends the episode."""
PROMPT_CHARACTERS = 10_000
"""As long as the planner's texts are in these episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BareClients:
    """Episodes without an engine: the same calls in the same order, as many at once."""

    simulator_url: str
    models_url: str
    model: str

    async def run(self, *, episodes: int, concurrency: int, model_calls: int) -> float:
        """Wall clock, in seconds, of so many episodes.

        Args:
            concurrency: Episodes in flight.
            model_calls: Model calls in flight.
        """
        ask = _body(self.model)
        slots = anyio.Semaphore(model_calls)
        left = iter(range(episodes))
        async with (
            AsyncOpenAI(base_url=self.models_url, api_key="none", max_retries=0) as models,
            Client(streamable_http_client(self.simulator_url), cache=None) as simulator,
        ):

            async def work() -> None:
                for _ in left:
                    await _episode(simulator, models, ask, slots)

            await models.models.list()
            await simulator.list_tools()
            begun = time.monotonic()
            async with anyio.create_task_group() as group:
                for _ in range(concurrency):
                    group.start_soon(work)
            return time.monotonic() - begun


async def _episode(
    simulator: Client, models: AsyncOpenAI, ask: bytes, slots: anyio.Semaphore
) -> None:
    created = (await simulator.call_tool("create_env", {"env_id": "openeta/null-v0"})).content[0]
    assert isinstance(created, TextContent)
    handle = json.loads(created.text)
    await simulator.call_tool("reset_env", handle)
    for tool in TOOLS:
        async with slots:
            await models.post(
                "/chat/completions",
                cast_to=str,
                content=ask,
                options={"headers": {"Content-Type": "application/json"}},
            )
        if tool is not None:
            await simulator.call_tool(tool, handle)
    await simulator.call_tool("close_env", handle)


def _body(model: str) -> bytes:
    frame = f"data:image/png;base64,{camera('agentview', 0)['rgb_base64']}"
    content = [
        {"type": "text", "text": "." * PROMPT_CHARACTERS},
        {"type": "image_url", "image_url": {"url": frame, "detail": "high"}},
    ]
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": model, "messages": messages, "temperature": 0}).encode()
