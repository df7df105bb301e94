"""What the client believes of a service: everything that is consistent, nothing that is not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.adapters.perception.checking import detections, grasps, point_detections
from openeta_exp.domain.identity import JsonObject
from openeta_exp.embedded.perception.arguments import DetectGrasps, Segment, SegmentPoints, parse
from openeta_exp.embedded.perception.service import PerceptionService
from openeta_exp.ports.perception import Point
from openeta_exp.wire.base64_text import encode_base64
from openeta_exp.wire.images import encode_mask, encode_png
from openeta_exp.wire.perception_tools import ReplyError
from tests.embedded.perception.frames import KnownFrames, Shot, take

pytestmark = pytest.mark.anyio

Details = dict[str, Any]
Change = Callable[[Details], object]

SHOT = take()
POINTS = (Point(x=128, y=128), Point(x=3, y=4, label=0))


async def true_details(tool: str, shot: Shot) -> Details:
    """What our own server answers."""
    service = PerceptionService(KnownFrames((shot,)))
    image = encode_base64(shot.rgb_png)
    reply: JsonObject
    match tool:
        case "segment":
            reply = await service.segment(
                parse(Segment, {"image_base64": image, "prompt": "the butter"})
            )
        case "segment_points":
            points: list[Any] = [{"x": p.x, "y": p.y, "label": p.label} for p in POINTS]
            reply = await service.segment_points(
                parse(SegmentPoints, {"image_base64": image, "points": points})
            )
        case _:
            reply = await service.detect_grasps(
                parse(DetectGrasps, shot.grasp_arguments(shot.mask("butter_1")))
            )
    details = reply["details"]
    assert isinstance(details, dict)
    return details


def swap(rows: list[Any]) -> None:
    rows[0], rows[1] = rows[1], rows[0]


def grey(value: int, size: tuple[int, int] = (256, 256)) -> dict[str, str]:
    return {
        "format": "png",
        "base64": encode_base64(encode_png(np.full(size, value, dtype=np.uint8))),
    }


COLOURED = {
    "format": "png",
    "base64": encode_base64(encode_png(np.zeros((256, 256, 3), dtype=np.uint8))),
}

POINT_LIES: dict[str, Change] = {
    "echoes other points": lambda d: d["points"].pop(),
    "echoes another label": lambda d: d["points"][1].update(label=1),
    "has two candidates": lambda d: d["detections"].pop(),
    "counts two": lambda d: d.update(detection_count=2),
    "counts two in its metadata": lambda d: d["metadata"].update(detection_count=2),
    "counts three points": lambda d: d["metadata"].update(point_count=3),
    "ranks from one": lambda d: [row.update(rank=row["rank"] + 1) for row in d["detections"]],
    "repeats a backend index": lambda d: d["detections"][0].update(
        backend_index=d["detections"][1]["backend_index"]
    ),
    "scores ascend": lambda d: d["detections"][2].update(score=0.99),
    "labels by name": lambda d: d["detections"][0].update(label="butter"),
    "area is off by one": lambda d: d["detections"][0].update(
        area_px=d["detections"][0]["area_px"] + 1
    ),
    "box is closed instead of half-open": lambda d: d["detections"][0].update(
        bbox_xyxy=[
            *d["detections"][0]["bbox_xyxy"][:2],
            d["detections"][0]["bbox_xyxy"][2] - 1,
            d["detections"][0]["bbox_xyxy"][3] - 1,
        ]
    ),
    "mask is grey": lambda d: d["detections"][0].update(mask=grey(128)),
    "mask is coloured": lambda d: d["detections"][0].update(mask=COLOURED),
    "mask is small": lambda d: d["detections"][0].update(mask=grey(255, (64, 64))),
    "mask is no image": lambda d: d["detections"][0].update(mask={"base64": "AAAA"}),
    "mask is no base64": lambda d: d["detections"][0].update(mask={"base64": "?"}),
    "lacks an overlay": lambda d: d["artifacts"].pop(),
    "overlays are swapped": lambda d: [
        d["artifacts"][0].update(rank=1),
        d["artifacts"][1].update(rank=0),
    ],
    "counts in metres": lambda d: d["metadata"].update(coordinate_units="metres"),
    "counts from the bottom": lambda d: d["metadata"].update(coordinate_origin="bottom_left"),
    "does not say it is one of many": lambda d: d["metadata"].update(multimask_output=False),
    "is of another image": lambda d: d["metadata"].update(image_size={"width": 9, "height": 256}),
    "says no size": lambda d: d["metadata"].pop("image_size"),
    "has no metadata": lambda d: d.pop("metadata"),
}


async def test_our_own_server_passes_every_rule() -> None:
    named = detections(await true_details("segment", SHOT), SHOT.frame)
    pointed = point_detections(await true_details("segment_points", SHOT), SHOT.frame, POINTS)
    grasped = grasps(await true_details("detect_grasps", SHOT), stretch=1.0)

    assert (len(named.found), len(pointed.found)) == (1, 3)
    assert grasped.found[0].width_m == pytest.approx(0.04, abs=0.006)


@pytest.mark.parametrize("lie", POINT_LIES)
async def test_a_point_answer_that_contradicts_itself_is_not_believed(lie: str) -> None:
    details = copy.deepcopy(await true_details("segment_points", SHOT))
    POINT_LIES[lie](details)

    with pytest.raises(ReplyError):
        point_detections(details, SHOT.frame, POINTS)


async def test_sizes_may_come_as_a_pair() -> None:
    details = await true_details("segment_points", SHOT)
    details["metadata"]["image_size"] = [256, 256]

    assert len(point_detections(details, SHOT.frame, POINTS).found) == 3


SEGMENT_LIES: dict[str, Change] = {
    "counts wrongly": lambda d: d.update(detection_count=5),
    "mask is small": lambda d: d["detections"][0].update(mask=grey(255, (64, 64))),
    "mask is grey": lambda d: d["detections"][0].update(mask=grey(3)),
    "score is text": lambda d: d["detections"][0].update(score="high"),
    "is of another image": lambda d: d["metadata"].update(image_size=[1, 2]),
    "has no detections": lambda d: d.pop("detections"),
}


@pytest.mark.parametrize("lie", SEGMENT_LIES)
async def test_a_text_answer_that_contradicts_itself_is_not_believed(lie: str) -> None:
    details = copy.deepcopy(await true_details("segment", SHOT))
    SEGMENT_LIES[lie](details)

    with pytest.raises(ReplyError):
        detections(details, SHOT.frame)


async def test_text_detections_are_sorted_and_boxed_by_their_masks() -> None:
    details = await true_details("segment", SHOT)
    weaker = copy.deepcopy(details["detections"][0])
    weaker.update(score=0.2, bbox_xyxy=[0, 0, 1, 1], area_px=1)
    details.update(detections=[weaker, details["detections"][0]], detection_count=2)

    found = detections(details, SHOT.frame).found

    assert [each.score > 0.5 for each in found] == [True, False]
    assert found[0].bbox_xyxy == found[1].bbox_xyxy
    assert found[1].area_px == int(SHOT.mask("butter_1").sum())


GRASP_LIES: dict[str, Change] = {
    "counts wrongly": lambda d: d.update(candidate_count=99),
    "ranks are swapped": lambda d: [
        d["grasp_candidates"][0].update(rank=1),
        d["grasp_candidates"][1].update(rank=0),
    ],
    "ids repeat": lambda d: d["grasp_candidates"][1].update(id="grasp_000"),
    "is in the world": lambda d: d["grasp_candidates"][0].update(frame="world"),
    "is in another camera frame": lambda d: d["grasp_candidates"][0].update(camera_frame="opengl"),
    "rotation is a reflection": lambda d: [
        row.__setitem__(2, -row[2]) for row in d["grasp_candidates"][0]["rotation_matrix"]
    ],
    "rotation is stretched": lambda d: [
        row.__setitem__(1, 2 * row[1]) for row in d["grasp_candidates"][0]["rotation_matrix"]
    ],
    "rotation has two columns": lambda d: [
        row.pop() for row in d["grasp_candidates"][0]["rotation_matrix"]
    ],
    "tip is elsewhere": lambda d: d["grasp_candidates"][0].update(depth=0.5),
    "width is negative": lambda d: d["grasp_candidates"][0].update(width=-0.01),
    "translation is not a number": lambda d: d["grasp_candidates"][0].update(
        translation_xyz=[0.0, float("nan"), 1.0]
    ),
}


@pytest.mark.parametrize("lie", GRASP_LIES)
async def test_a_grasp_answer_that_contradicts_itself_is_not_believed(lie: str) -> None:
    details = copy.deepcopy(await true_details("detect_grasps", SHOT))
    GRASP_LIES[lie](details)

    with pytest.raises(ReplyError):
        grasps(details, stretch=1.0)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
KEYS = (
    "backend",
    "detections",
    "detection_count",
    "points",
    "artifacts",
    "metadata",
    "candidate_count",
    "grasp_candidates",
)


@settings(max_examples=60, deadline=None)
@given(details=st.dictionaries(st.sampled_from(KEYS), json_values))
def test_no_answer_can_do_more_than_be_refused(details: JsonObject) -> None:
    readers: tuple[Callable[[], object], ...] = (
        lambda: detections(details, SHOT.frame),
        lambda: point_detections(details, SHOT.frame, POINTS),
        lambda: grasps(details, stretch=1.0),
    )
    for read in readers:
        try:
            read()
        except ReplyError as error:
            assert str(error)  # noqa: PT017 - an answer may also be acceptable


@settings(max_examples=40, deadline=None)
@given(
    rows=st.tuples(st.integers(0, 255), st.integers(0, 255)),
    columns=st.tuples(st.integers(0, 255), st.integers(0, 255)),
)
def test_a_box_holds_its_mask_and_nothing_less(
    rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    (top, bottom), (left, right) = sorted(rows), sorted(columns)
    mask = np.zeros((256, 256), dtype=np.bool_)
    mask[top : bottom + 1, left : right + 1] = True
    row: JsonObject = {
        "label": "thing",
        "score": 0.5,
        "bbox_xyxy": [0, 0, 0, 0],
        "mask": {"format": "png", "base64": encode_base64(encode_mask(mask))},
        "area_px": 0,
        "backend_index": 0,
        "rank": 0,
    }

    answer = detections({"backend": "x", "detection_count": 1, "detections": [row]}, SHOT.frame)

    assert answer.found[0].bbox_xyxy == (left, top, right + 1, bottom + 1)
    assert answer.found[0].area_px == (bottom + 1 - top) * (right + 1 - left)
