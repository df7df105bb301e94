"""However a server ends, its environment processes end with it."""

from __future__ import annotations

import signal

import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from openeta_exp.embedded.simulator.gl import Gl, environment_with
from openeta_exp.embedded.simulator.replies import CreateReply
from tests.embedded.simulator.servers import command, http_server
from tests.embedded.simulator.test_transports import CAN, call

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("reason", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_a_server_that_is_ended_leaves_no_process(reason: signal.Signals) -> None:
    with http_server("--gl", "none") as (process, ready):
        async with Client(ready.url) as client:
            for _ in range(2):
                reply = await call(client, "create_env", env_id=CAN, cameras=[])
            handle = CreateReply.from_json(reply).handle
            await call(client, "reset_env", handle=handle)
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 2

        process.send_signal(reason)
        status = process.wait(timeout=60)
        _, alive = psutil.wait_procs(children, timeout=60)

    assert alive == []
    assert status == (-reason if reason is signal.SIGKILL else 0)


async def test_a_server_killed_during_a_motion_leaves_no_process() -> None:
    with http_server("--gl", "none") as (process, ready):
        async with Client(ready.url) as client:
            reply = await call(client, "create_env", env_id=CAN, cameras=[])
            await call(client, "reset_env", handle=CreateReply.from_json(reply).handle)
        (child,) = psutil.Process(process.pid).children()
        # A stopped process cannot see the closed socket; only the kernel can end it.
        child.suspend()

        process.kill()
        process.wait(timeout=60)
        _, alive = psutil.wait_procs([child], timeout=60)

    assert alive == []


async def test_a_stdio_server_ends_with_its_client() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    program, *arguments = command("--transport", "stdio", "--gl", "none")
    parameters = StdioServerParameters(
        command=program, args=arguments, env=environment_with(Gl.NONE)
    )
    async with Client(stdio_client(parameters)) as client:
        await call(client, "create_env", env_id=CAN, cameras=[])
        started = psutil.Process().children(recursive=True)

    _, alive = psutil.wait_procs([p for p in started if p.pid not in before], timeout=60)
    assert alive == []
