"""The server as a process of its own, next to a simulator that tells what its frames show."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from anyio.streams.text import TextReceiveStream
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from openeta_exp.adapters.perception.mcp_perception import McpPerception
from openeta_exp.embedded.perception.asgi import serving
from openeta_exp.embedded.perception.frame_source import HttpFrameSource, RememberedFrames
from openeta_exp.errors import PerceptionError, SimulatorError
from tests.adapters.perception.serving_http import on_loopback
from tests.embedded.perception.frames import BUTTER, KnownFrames, Shot, take

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def shot() -> Shot:
    return take()


@asynccontextmanager
async def telling(shot: Shot) -> AsyncIterator[str]:
    """The simulator's side of `GET /frames/{sha256}`."""

    async def frame(request: Request) -> Response:
        digest = request.path_params["digest"]
        if digest == "0" * 64:
            return Response(b"not an archive")
        if digest == "1" * 64:
            return Response(status_code=503)
        if digest != shot.digest:
            return Response(status_code=404)
        return Response(shot.truth.to_npz())

    app = Starlette(routes=[Route("/frames/{digest}", endpoint=frame)])
    async with on_loopback(app) as port:
        yield f"http://127.0.0.1:{port}/frames"


async def test_the_command_serves_frames_of_the_simulator_it_was_pointed_at(shot: Shot) -> None:
    async with telling(shot) as frames_url:
        command = [sys.executable, "-m", "openeta_exp.embedded.perception", "--frames-url"]
        async with await anyio.open_process([*command, frames_url], stderr=None) as process:
            assert process.stdout is not None
            with anyio.fail_after(60):
                ready = json.loads(await TextReceiveStream(process.stdout).receive())
                perception = McpPerception(ready["url"], ready["sse_url"], 30.0)
                found = await perception.segment(shot.frame, prompt="butter")
                grasped = await perception.detect_grasps(
                    shot.frame, mask_png=found.found[0].mask_png
                )
                async with httpx2.AsyncClient(trust_env=False) as http:
                    health = (await http.get(ready["url"].replace("/mcp", "/"))).json()
                await perception.aclose()
                process.terminate()
                await process.wait()

    assert found.found[0].label == "butter"
    assert grasped.found[0].rank == 0
    assert health["backend"] == "embedded"


async def test_a_simulator_that_is_gone_is_an_infrastructure_error(shot: Shot) -> None:
    async with (
        HttpFrameSource("http://127.0.0.1:9/frames") as frames,
        serving(frames) as app,
        on_loopback(app) as port,
    ):
        perception = McpPerception(f"http://127.0.0.1:{port}/mcp", None, 20.0)
        with pytest.raises(PerceptionError) as caught:
            await perception.segment(shot.frame, prompt="butter")
        await perception.aclose()

    assert caught.value.code == "backend_unavailable"


async def test_a_frame_crosses_the_wire_whole_or_is_refused(shot: Shot) -> None:
    async with telling(shot) as frames_url, HttpFrameSource(frames_url) as source:
        truth = await source.frame_truth(shot.digest)
        unknown = await source.frame_truth("f" * 64)
        for broken in ("0" * 64, "1" * 64):
            with pytest.raises(SimulatorError):
                await source.frame_truth(broken)

    assert unknown is None
    assert truth is not None
    assert (truth.segmentation == shot.truth.segmentation).all()
    assert truth.instances == shot.truth.instances


async def test_callers_at_the_same_time_ask_for_a_frame_once(shot: Shot) -> None:
    source = KnownFrames((shot,))
    frames = RememberedFrames(source)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(frames.frame_truth, shot.digest)

    assert source.asked == [shot.digest]


async def test_old_frames_are_forgotten(shot: Shot) -> None:
    source = KnownFrames((shot, other := take({"butter_1": BUTTER})))
    frames = RememberedFrames(source, capacity=1)

    for each in (shot, other, shot):
        await frames.frame_truth(each.digest)

    assert source.asked == [shot.digest, other.digest, shot.digest]
