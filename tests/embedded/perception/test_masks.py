"""Detections are what the segmentation holds."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from openeta_exp.embedded.perception.masks import MIN_PIXELS, find_at, find_named, objects_in
from openeta_exp.embedded.perception.overlay import draw_overlay
from openeta_exp.embedded.simulator.frames import FrameInstance, FrameTruth
from openeta_exp.wire.perception_tools import WirePoint


def frame_of(segmentation: np.ndarray) -> FrameTruth:
    """A frame with `mug_1`, `mug_2` and `plate_1` as 1, 2 and 3, and the robot as 4."""
    names = ("mug_1", "mug_2", "plate_1", "robot")
    return FrameTruth(
        segmentation=segmentation.astype(np.int32),
        depth_m=np.ones(segmentation.shape, dtype=np.float32),
        intrinsics=np.eye(3),
        world_from_camera=np.eye(4),
        instances=tuple(
            FrameInstance(
                instance_id=number,
                name=name,
                category=name.rsplit("_", 1)[0],
                label=name.rsplit("_", 1)[0],
                kind="robot" if name == "robot" else "object",
            )
            for number, name in enumerate(names, start=1)
        ),
    )


def two_mugs() -> np.ndarray:
    segmentation = np.zeros((40, 60), dtype=np.int32)
    segmentation[5:15, 5:15] = 1
    segmentation[5:25, 30:50] = 2
    segmentation[30:32, 0:5] = 3
    return segmentation


def test_equally_named_things_are_told_apart_and_the_larger_comes_first() -> None:
    found = find_named(frame_of(two_mugs()), "mug", threshold=0.5)

    assert [each.area_px for each in found] == [400, 100]
    assert found[0].bbox_xyxy == (30, 5, 50, 25)
    assert found[0].score == found[1].score


def test_an_instance_number_in_the_prompt_is_not_a_word() -> None:
    found = find_named(frame_of(two_mugs()), "mug_1", threshold=0.5)

    assert len(found) == 2


def test_a_sliver_of_a_thing_is_not_detected() -> None:
    assert MIN_PIXELS > 10
    assert find_named(frame_of(two_mugs()), "plate", threshold=0.5) == []
    assert len(objects_in(frame_of(two_mugs()))) == 2


def test_a_thing_cut_in_two_is_offered_whole_and_in_pieces() -> None:
    segmentation = two_mugs()
    segmentation[5:25, 38:42] = 3

    whole, piece, part = find_at(frame_of(segmentation), [WirePoint(x=32, y=8)])

    assert whole.area_px == 320
    assert piece.area_px == 160
    assert part.area_px < 160


def test_a_background_point_prefers_the_mask_that_avoids_it() -> None:
    segmentation = two_mugs()
    segmentation[5:25, 38:42] = 3
    points = [WirePoint(x=32, y=8), WirePoint(x=46, y=8, label=0)]

    best = find_at(frame_of(segmentation), points)[0]

    assert best.area_px == 160
    assert not best.mask[8, 46]


@settings(max_examples=50, deadline=None)
@given(
    cells=st.lists(st.integers(0, 4), min_size=80, max_size=80),
    points=st.lists(
        st.builds(
            WirePoint,
            x=st.integers(0, 9),
            y=st.integers(0, 7),
            label=st.sampled_from([0, 1]),
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_whatever_is_pointed_at_three_ranked_masks_hold_the_foreground(
    cells: list[int], points: list[WirePoint]
) -> None:
    points = [WirePoint(x=0, y=0), *points]

    found = find_at(frame_of(np.array(cells).reshape(8, 10)), points)

    assert sorted(each.backend_index for each in found) == [0, 1, 2]
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    for each in found:
        left, top, right, bottom = each.bbox_xyxy
        assert all(each.mask[p.y, p.x] for p in points if p.label == 1)
        assert np.count_nonzero(each.mask[top:bottom, left:right]) == each.area_px


def test_an_overlay_keeps_the_size_and_colours_only_the_mask() -> None:
    rgb = np.full((40, 60, 3), 120, dtype=np.uint8)
    mask = two_mugs() == 1

    drawn = np.asarray(Image.open(io.BytesIO(draw_overlay(rgb, [mask]))).convert("RGB")).astype(int)

    assert drawn.shape == (40, 60, 3)
    coloured = np.ptp(drawn, axis=-1) > 20
    assert np.array_equal(coloured, mask)
