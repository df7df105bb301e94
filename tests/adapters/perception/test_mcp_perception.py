"""The perception client against served contracts, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
import numpy as np
import pytest
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from openeta_exp.adapters.perception.mcp_perception import McpPerception
from openeta_exp.embedded.perception.asgi import serving
from openeta_exp.engine.geometry import grasp_in_world
from openeta_exp.errors import PerceptionError
from openeta_exp.ports.perception import Point
from openeta_exp.wire.images import decode_mask, encode_mask, encode_png
from tests.adapters.perception.serving_http import on_loopback
from tests.embedded.perception.frames import BUTTER, KnownFrames, Shot, take

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def shot() -> Shot:
    return take()


@dataclass
class Overhears:
    """Passes requests on and notes the JSON-RPC methods that are called."""

    app: Starlette
    methods: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def listen() -> Message:
            message = await receive()
            if message["type"] == "http.request" and message.get("body"):
                self.methods.append(json.loads(message["body"]).get("method", ""))
            return message

        await self.app(scope, listen, send)


@asynccontextmanager
async def perceiving(shot: Shot, path: str) -> AsyncIterator[McpPerception]:
    async with serving(KnownFrames((shot,))) as app, on_loopback(app) as port:
        url = f"http://127.0.0.1:{port}{path}"
        perception = McpPerception(url, url, 20.0)
        try:
            yield perception
        finally:
            await perception.aclose()


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_target_and_grasp_are_found_over_either_transport(shot: Shot, path: str) -> None:
    async with perceiving(shot, path) as perception:
        described = await perception.describe()
        detected = await perception.segment(shot.frame, prompt="butter")
        grasped = await perception.detect_grasps(
            shot.frame, mask_png=detected.found[0].mask_png, collision_detection=True
        )

    assert described["sam3"] == {
        "url": (described["anygrasp"])["url"],  # type: ignore[index, call-overload]
        "tools": ["segment", "segment_points"],
    }
    assert detected.found[0].label == "butter"
    assert np.array_equal(decode_mask(detected.found[0].mask_png), shot.mask("butter_1"))
    best = grasp_in_world(grasped.found[0], shot.scene.world_from_camera)
    assert best.downward == pytest.approx(1.0)
    assert best.position_m[:2] == pytest.approx((BUTTER.x_m, BUTTER.y_m), abs=0.004)
    assert grasped.stamp == "embedded:masked-depth-top-down"


async def test_prompt_points_come_back_as_three_detections(shot: Shot) -> None:
    row, column = (int(each.mean()) for each in np.nonzero(shot.mask("tomato_sauce_1")))

    async with perceiving(shot, "/mcp") as perception:
        answer = await perception.segment_points(shot.frame, points=(Point(x=column, y=row),))

    assert [each.label for each in answer.found] == ["point_prompt"] * 3


async def test_refusals_are_answers_and_say_why(shot: Shot) -> None:
    foreign = replace(shot.frame, rgb_png=encode_png(np.zeros((256, 256, 3), dtype=np.uint8)))
    blind = replace(shot.frame, depth_png=None)
    nothing = encode_mask(np.zeros((256, 256), dtype=np.bool_))

    async with perceiving(shot, "/mcp") as perception:
        reasons = [
            (await perception.segment(foreign, prompt="butter")).reason,
            (await perception.segment_points(shot.frame, points=(Point(x=999, y=0),))).reason,
            (await perception.detect_grasps(shot.frame, mask_png=nothing)).reason,
            (await perception.detect_grasps(blind, mask_png=None)).reason,
        ]
        unasked = McpPerception(None, None)
        reasons.append((await unasked.segment(shot.frame, prompt="butter")).reason)

    assert reasons == [
        "image_not_rendered_here",
        "point_out_of_bounds",
        "empty_target_mask",
        "depth_decode_failed",
        "backend_unavailable",
    ]


async def test_any_number_of_episodes_share_one_connection(shot: Shot) -> None:
    async with serving(KnownFrames((shot,))) as app:
        overhearing = Overhears(app)
        async with on_loopback(overhearing) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            perception = McpPerception(url, url, 20.0)

            async def look(prompt: str) -> None:
                await perception.segment(shot.frame, prompt=prompt)

            async with anyio.create_task_group() as group:
                for prompt in ("butter", "tomato sauce", "alphabet soup", "butter"):
                    group.start_soon(look, prompt)
            await perception.detect_grasps(shot.frame, mask_png=None)
            await perception.aclose()

    assert overhearing.methods.count("tools/call") == 5
    assert overhearing.methods.count("server/discover") == 1


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_restarted_server_is_found_again(shot: Shot, path: str) -> None:
    async with serving(KnownFrames((shot,))) as app, on_loopback(app) as port:
        perception = McpPerception(
            f"http://127.0.0.1:{port}{path}", f"http://127.0.0.1:{port}{path}", 20.0
        )
        await perception.segment(shot.frame, prompt="butter")
    async with serving(KnownFrames((shot,))) as app, on_loopback(app, port=port):
        answer = await perception.segment(shot.frame, prompt="butter")
        await perception.aclose()

    assert answer.found[0].label == "butter"


async def test_no_server_is_an_infrastructure_error() -> None:
    perception = McpPerception("http://127.0.0.1:9/mcp", None, 5.0)

    with pytest.raises(PerceptionError) as caught:
        await perception.describe()

    assert caught.value.code == "perception_mcp_connection_lost"


@asynccontextmanager
async def answering(text: str, *, tools: tuple[str, ...] = ("segment",)) -> AsyncIterator[str]:
    """A server whose every tool answers with `text`."""

    async def list_tools(
        _context: ServerRequestContext, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(
            tools=[Tool(name=tool, input_schema={"type": "object"}) for tool in tools]
        )

    async def call_tool(
        _context: ServerRequestContext, _params: CallToolRequestParams
    ) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=text)])

    server = Server("stub", on_list_tools=list_tools, on_call_tool=call_tool)
    sessions = StreamableHTTPSessionManager(app=server, json_response=True)
    app = Starlette(routes=[Route("/mcp", endpoint=StreamableHTTPASGIApp(sessions))])
    async with sessions.run(), on_loopback(app) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("hello", "perception_mcp_invalid_response"),
        ('{"found": []}', "inconsistent_detection_outputs"),
        ('{"success": true, "details": {}}', "inconsistent_detection_outputs"),
        (
            '{"success": true, "details": '
            '{"backend": "x", "detection_count": 2, "detections": []}}',
            "inconsistent_detection_outputs",
        ),
        ('{"success": false, "details": {"reason": "model_load_failed"}}', "model_load_failed"),
        ('{"success": false, "details": {"reason": 5}}', "inconsistent_detection_outputs"),
        ('{"success": false}', "unknown_error"),
    ],
)
async def test_an_answer_that_breaks_the_contract_costs_the_episode(
    shot: Shot, text: str, code: str
) -> None:
    async with answering(text) as url:
        perception = McpPerception(url, None, 20.0)
        with pytest.raises(PerceptionError) as caught:
            await perception.segment(shot.frame, prompt="butter")
        await perception.aclose()

    assert caught.value.code == code


async def test_a_server_without_a_needed_tool_is_named() -> None:
    async with answering("{}", tools=("segment",)) as url:
        perception = McpPerception(url, None, 20.0)
        with pytest.raises(PerceptionError, match="segment_points") as caught:
            await perception.describe()
        await perception.aclose()

    assert caught.value.code == "remote_capability_missing"


async def test_an_empty_list_of_grasps_is_a_refusal(shot: Shot) -> None:
    text = (
        '{"success": true, "details": {"backend": "x", "candidate_count": 0, '
        '"grasp_candidates": []}}'
    )
    async with answering(text) as url:
        perception = McpPerception(None, url, 20.0)
        answer = await perception.detect_grasps(shot.frame, mask_png=None)
        await perception.aclose()

    assert answer.reason == "no_grasp_candidates"


async def test_a_scene_shrunk_below_the_depth_limit_is_answered_in_full_size(shot: Shot) -> None:
    mask = encode_mask(shot.mask("butter_1"))
    async with serving(KnownFrames((shot,))) as app, on_loopback(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        plain = McpPerception(url, url)
        shrinking = McpPerception(url, url, depth_cutoff_factor=2.0)
        direct = await plain.detect_grasps(shot.frame, mask_png=mask)
        around = await shrinking.detect_grasps(shot.frame, mask_png=mask)
        await plain.aclose()
        await shrinking.aclose()

    assert around.found[0].translation_m == pytest.approx(direct.found[0].translation_m)
    assert around.found[0].depth_m == pytest.approx(direct.found[0].depth_m)
