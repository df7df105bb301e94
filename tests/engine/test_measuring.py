"""Detections and grasps get their place in the world."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from openeta_exp.engine.geometry import (
    GeometryError,
    extents_along,
    grasp_in_world,
    matrix_from_euler_deg,
    measure,
)
from openeta_exp.ports.perception import GraspCandidate
from openeta_exp.wire.images import encode_mask, encode_png
from tests.depth_scenes import ACROSS_THE_TABLE, INTRINSICS, Scene, Solid, draw

BOX = Solid(x_m=0.02, y_m=0.1, width_m=0.05, length_m=0.12, height_m=0.1, yaw_deg=20)


def depth_png(scene: Scene) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.round(scene.depth_m * 1000).astype(np.uint16)).save(buffer, format="PNG")
    return buffer.getvalue()


def test_a_detection_is_measured_from_its_images() -> None:
    scene = draw(BOX)

    region = measure(
        encode_mask(scene.mask()),
        depth_png(scene),
        INTRINSICS,
        world_from_camera=scene.world_from_camera,
    )

    assert region.top_centre_m == pytest.approx((0.02, 0.1, 0.1), abs=0.004)
    assert region.centre_m == pytest.approx((0.02, 0.1, 0.05), abs=0.004)
    assert region.min_m[2] == pytest.approx(0.0, abs=0.004)
    assert region.max_m[2] == pytest.approx(0.1, abs=0.002)
    assert np.degrees(region.top.short_yaw_rad) == pytest.approx(20, abs=3)
    across, along, upwards = extents_along(region, matrix_from_euler_deg(0, 0, 20))
    assert across.length_m == pytest.approx(0.05, abs=0.008)
    assert along.length_m == pytest.approx(0.12, abs=0.008)
    assert upwards.high_m == pytest.approx(0.1, abs=0.003)


@pytest.mark.parametrize(
    ("mask", "depth", "code"),
    [
        (b"no image", None, "target_mask_decode_failed"),
        (encode_png(np.zeros((4, 4, 3), dtype=np.uint8)), None, "target_mask_decode_failed"),
        (encode_mask(np.zeros((4, 4), dtype=np.bool_)), None, "image_shape_mismatch"),
        (None, b"\x89PNG\r\n\x1a\n", "depth_decode_failed"),
        (None, encode_png(np.zeros((256, 256), dtype=np.uint8)), "depth_decode_failed"),
        (encode_mask(np.zeros((256, 256), dtype=np.bool_)), None, "empty_target_mask"),
    ],
)
def test_an_image_that_cannot_be_measured_is_refused_by_its_code(
    mask: bytes | None, depth: bytes | None, code: str
) -> None:
    scene = draw(BOX)

    with pytest.raises(GeometryError) as caught:
        measure(
            mask or encode_mask(scene.mask()),
            depth or depth_png(scene),
            INTRINSICS,
            world_from_camera=ACROSS_THE_TABLE,
        )

    assert caught.value.code == code


def test_a_grasp_in_the_camera_becomes_a_pose_in_the_world() -> None:
    pose = np.asarray(ACROSS_THE_TABLE)
    down, closing = np.array([0.0, 0.0, -1.0]), np.array([0.0, 1.0, 0.0])
    world_rotation = np.stack([down, closing, np.cross(down, closing)], axis=1)
    in_camera = pose[:3, :3].T @ world_rotation
    centre = pose[:3, :3].T @ (np.array([0.02, 0.1, 0.1]) - pose[:3, 3])
    rows = [tuple(float(v) for v in row) for row in in_camera]
    candidate = GraspCandidate(
        candidate_id="grasp_000",
        rank=0,
        score=0.9,
        translation_m=(float(centre[0]), float(centre[1]), float(centre[2])),
        rotation=(rows[0], rows[1], rows[2]),  # type: ignore[arg-type]
        width_m=0.06,
        depth_m=0.03,
        height_m=0.02,
    )

    grasp = grasp_in_world(candidate, ACROSS_THE_TABLE)

    assert grasp.position_m == pytest.approx((0.02, 0.1, 0.1))
    assert grasp.fingertips_m == pytest.approx((0.02, 0.1, 0.07))
    assert grasp.downward == pytest.approx(1.0)
    assert abs(grasp.closing_yaw_deg) == pytest.approx(90.0)
