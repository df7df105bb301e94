"""The served contract, through a real MCP client."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator

import numpy as np
import pytest
from mcp import Client
from mcp.types import TextContent

from openeta_exp.adapters.perception.checking import detections, grasps, point_detections
from openeta_exp.domain.identity import JsonObject
from openeta_exp.embedded.perception.mcp_server import build_server
from openeta_exp.embedded.perception.service import PerceptionService
from openeta_exp.embedded.simulator.frames import FrameTruth
from openeta_exp.errors import SimulatorError
from openeta_exp.ports.perception import Point
from openeta_exp.wire.base64_text import encode_base64
from openeta_exp.wire.images import decode_mask, encode_mask, encode_png
from tests.embedded.perception.frames import KnownFrames, Shot, take

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def shot() -> Shot:
    return take()


@pytest.fixture
async def client(shot: Shot) -> AsyncIterator[Client]:
    async with Client(build_server(PerceptionService(KnownFrames((shot,))))) as client:
        yield client


async def call(client: Client, tool: str, arguments: JsonObject) -> JsonObject:
    result = await client.call_tool(tool, arguments)
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert not result.is_error
    reply: JsonObject = json.loads(block.text)
    return reply


async def reason(client: Client, tool: str, arguments: JsonObject) -> str:
    reply = await call(client, tool, arguments)
    details = reply["details"]
    assert isinstance(details, dict)
    assert reply["success"] is False
    assert details["backend"] == "embedded"
    assert reply["content"]
    return str(details["reason"])


async def test_a_phrase_finds_exactly_the_pixels_the_simulator_drew(
    client: Client, shot: Shot
) -> None:
    reply = await call(
        client,
        "segment",
        {"image_base64": encode_base64(shot.rgb_png), "prompt": "the Alphabet_Soup"},
    )

    details = reply["details"]
    assert isinstance(details, dict)
    assert (details["tool"], details["backend"]) == ("sam3", "embedded")
    answer = detections(details, shot.frame)
    (found,) = answer.found
    assert np.array_equal(decode_mask(found.mask_png), shot.mask("alphabet_soup_1"))
    assert found.score > 0.9
    assert answer.stamp == "embedded:simulator-segmentation"


async def test_nothing_found_is_a_success_without_detections(client: Client, shot: Shot) -> None:
    reply = await call(
        client, "segment", {"image_base64": encode_base64(shot.rgb_png), "prompt": "a wine bottle"}
    )

    details = reply["details"]
    assert isinstance(details, dict)
    assert reply["success"] is True
    assert detections(details, shot.frame).found == ()


async def test_points_are_answered_with_three_masks_that_keep_every_rule(
    client: Client, shot: Shot
) -> None:
    row, column = (int(each.mean()) for each in np.nonzero(shot.mask("tomato_sauce_1")))
    points = (Point(x=column, y=row), Point(x=1, y=1, label=0))

    reply = await call(
        client,
        "segment_points",
        {
            "image_base64": encode_base64(shot.rgb_png),
            "points": [{"x": p.x, "y": p.y, "label": p.label} for p in points],
        },
    )

    details = reply["details"]
    assert isinstance(details, dict)
    found = point_detections(details, shot.frame, points).found
    assert np.array_equal(decode_mask(found[0].mask_png), shot.mask("tomato_sauce_1"))
    assert found[2].area_px < found[0].area_px
    assert all(decode_mask(each.mask_png)[row, column] for each in found)


async def test_grasps_come_ranked_in_the_camera_frame_and_are_deterministic(
    client: Client, shot: Shot
) -> None:
    arguments = shot.grasp_arguments(shot.mask("butter_1")) | {"depth_cutoff_factor": 1.0}

    first, again = [await call(client, "detect_grasps", arguments) for _ in range(2)]

    details = first["details"]
    assert isinstance(details, dict)
    answer = grasps(details, stretch=1.0)
    assert 1 <= len(answer.found) <= 20
    assert answer.found[0].candidate_id == "grasp_000"
    again_details = again["details"]
    assert isinstance(again_details, dict)
    assert details["grasp_candidates"] == again_details["grasp_candidates"]


async def test_a_scene_that_was_sent_smaller_is_answered_smaller(
    client: Client, shot: Shot
) -> None:
    arguments = shot.grasp_arguments(shot.mask("butter_1"))
    intrinsics = arguments["intrinsics"]
    assert isinstance(intrinsics, dict)
    smaller: JsonObject = {**arguments, "intrinsics": {**intrinsics, "scale": 2000.0}}

    full, half = [await call(client, "detect_grasps", each) for each in (arguments, smaller)]

    full_details, half_details = full["details"], half["details"]
    assert isinstance(full_details, dict)
    assert isinstance(half_details, dict)
    whole = grasps(full_details, stretch=1.0).found
    stretched = grasps(half_details, stretch=2.0).found
    assert stretched[0].translation_m == pytest.approx(whole[0].translation_m)
    assert stretched[0].width_m == pytest.approx(whole[0].width_m)
    assert grasps(half_details, stretch=1.0).found[0].width_m < whole[0].width_m


async def test_an_image_the_simulator_did_not_render_is_refused_by_every_tool(
    client: Client, shot: Shot
) -> None:
    foreign = encode_base64(encode_png(np.full((256, 256, 3), 7, dtype=np.uint8)))
    grasp = shot.grasp_arguments(shot.mask("butter_1")) | {"rgb": {"base64": foreign}}
    point: JsonObject = {"x": 1, "y": 1, "label": 1}

    reasons = [
        await reason(client, "segment", {"image_base64": foreign, "prompt": "butter"}),
        await reason(client, "segment_points", {"image_base64": foreign, "points": [point]}),
        await reason(client, "detect_grasps", grasp),
    ]

    assert reasons == ["image_not_rendered_here"] * 3


def point(x: object, y: object, label: object = 1) -> JsonObject:
    return {"x": x, "y": y, "label": label}  # type: ignore[dict-item]


IMAGE = "<the frame>"
NO_IMAGE = base64.b64encode(b"not a picture").decode()


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("segment", {"prompt": "soup"}, "missing_image"),
        ("segment", {"image_base64": "", "prompt": "soup"}, "missing_image"),
        ("segment", {"image_base64": 5, "prompt": "soup"}, "missing_image"),
        ("segment", {"image_base64": "%%%", "prompt": "soup"}, "image_decode_failed"),
        ("segment", {"image_base64": NO_IMAGE, "prompt": "soup"}, "image_decode_failed"),
        ("segment", {"image_base64": IMAGE}, "missing_prompt"),
        ("segment", {"image_base64": IMAGE, "prompt": "  "}, "missing_prompt"),
        (
            "segment",
            {"image_base64": IMAGE, "prompt": "soup", "confidence_threshold": 2},
            "invalid_option",
        ),
        ("segment_points", {"image_base64": IMAGE}, "missing_points"),
        ("segment_points", {"image_base64": IMAGE, "points": []}, "missing_points"),
        ("segment_points", {"image_base64": IMAGE, "points": "here"}, "invalid_points"),
        ("segment_points", {"image_base64": IMAGE, "points": [point(1.5, 2)]}, "invalid_points"),
        ("segment_points", {"image_base64": IMAGE, "points": [point(1, 2, 7)]}, "invalid_points"),
        ("segment_points", {"image_base64": IMAGE, "points": [point(1, 2, 0)]}, "invalid_points"),
        (
            "segment_points",
            {"image_base64": IMAGE, "points": [point(1, 1)] * 65},
            "invalid_points",
        ),
        (
            "segment_points",
            {"image_base64": IMAGE, "points": [point(256, 0)]},
            "point_out_of_bounds",
        ),
        (
            "segment_points",
            {"image_base64": IMAGE, "points": [point(0, -1)]},
            "point_out_of_bounds",
        ),
    ],
)
async def test_a_segmentation_that_cannot_be_made_is_refused_by_its_code(
    client: Client, shot: Shot, tool: str, arguments: JsonObject, code: str
) -> None:
    given = {
        key: encode_base64(shot.rgb_png) if value == IMAGE else value
        for key, value in arguments.items()
    }

    assert await reason(client, tool, given) == code


NO_MASK = encode_base64(encode_mask(np.zeros((256, 256), dtype=np.bool_)))
SMALL_MASK = encode_base64(encode_mask(np.ones((4, 4), dtype=np.bool_)))
COLOURED = encode_base64(encode_png(np.zeros((256, 256, 3), dtype=np.uint8)))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"mode": "everywhere"}, "invalid_mode"),
        ({"target_mask": None}, "missing_target_mask"),
        ({"mode": "scene"}, "target_mask_not_allowed_in_scene_mode"),
        ({"intrinsics": None}, "missing_intrinsics"),
        ({"intrinsics": {"fx": 1.0}}, "invalid_intrinsics"),
        ({"intrinsics": {"fx": 0.0, "fy": 1.0, "cx": 0.0, "cy": 0.0}}, "invalid_intrinsics"),
        ({"scale": 0.0}, "invalid_depth_scale"),
        ({"scale": 1.0}, "depth_scale_mismatch"),
        ({"rgb": {"base64": NO_IMAGE}}, "rgb_decode_failed"),
        ({"rgb": None}, "rgb_decode_failed"),
        ({"depth": {"base64": NO_IMAGE}}, "depth_decode_failed"),
        ({"depth": {"base64": COLOURED}}, "unsupported_depth_format"),
        ({"target_mask": {"base64": "%%%"}}, "target_mask_decode_failed"),
        ({"target_mask": {"base64": COLOURED}}, "target_mask_decode_failed"),
        ({"target_mask": {"base64": SMALL_MASK}}, "image_shape_mismatch"),
        ({"target_mask": {"base64": NO_MASK}}, "empty_target_mask"),
        ({"approach_steering": [0, 0, 0]}, "invalid_approach_steering"),
        ({"approach_steering": [1, 0, 0], "approach_thresh": 0.1}, "no_grasp_candidates"),
        ({"approach_thresh": -1}, "invalid_option"),
        ({"collision_detection": "maybe"}, "invalid_option"),
    ],
)
async def test_a_grasp_that_cannot_be_planned_is_refused_by_its_code(
    client: Client, shot: Shot, changes: JsonObject, code: str
) -> None:
    arguments = shot.grasp_arguments(shot.mask("butter_1"))
    intrinsics = arguments["intrinsics"]
    assert isinstance(intrinsics, dict)
    if "scale" in changes:
        changes = {"intrinsics": {**intrinsics, "scale": changes["scale"]}}

    assert await reason(client, "detect_grasps", arguments | changes) == code


async def test_a_target_without_depth_is_refused(client: Client, shot: Shot) -> None:
    from io import BytesIO

    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(np.zeros((256, 256), dtype=np.uint16)).save(buffer, format="PNG")
    arguments = shot.grasp_arguments(shot.mask("butter_1"))
    arguments["depth"] = {"base64": encode_base64(buffer.getvalue())}

    assert await reason(client, "detect_grasps", arguments) == (
        "empty_point_cloud_after_depth_filter"
    )


async def test_an_unknown_tool_is_an_error_result(client: Client) -> None:
    result = await client.call_tool("segment_everything", {})

    assert result.is_error


async def test_a_frame_is_asked_for_once_however_often_it_is_looked_at(shot: Shot) -> None:
    source = KnownFrames((shot,))
    async with Client(build_server(PerceptionService(source))) as client:
        for prompt in ("alphabet soup", "butter"):
            await call(
                client, "segment", {"image_base64": encode_base64(shot.rgb_png), "prompt": prompt}
            )
        await call(client, "detect_grasps", shot.grasp_arguments(shot.mask("butter_1")))

    assert source.asked == [shot.digest]


async def test_a_simulator_that_does_not_answer_is_named_as_the_reason(shot: Shot) -> None:
    class Silent:
        async def frame_truth(self, digest: str) -> FrameTruth | None:
            raise SimulatorError("its process ended")

    async with Client(build_server(PerceptionService(Silent()))) as client:
        code = await reason(
            client, "segment", {"image_base64": encode_base64(shot.rgb_png), "prompt": "butter"}
        )

    assert code == "backend_unavailable"
