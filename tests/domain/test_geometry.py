"""Shapes are measured from one depth image of their front."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.domain.geometry import (
    GeometryError,
    euler_deg_from_matrix,
    matrix_from_euler_deg,
    matrix_from_quat_xyzw,
    seen_surface,
    smallest_rectangle,
    top_height_m,
    top_outline,
)
from tests.depth_scenes import ACROSS_THE_TABLE, INTRINSICS, Scene, Solid, draw, looking_from

CAN = Solid(x_m=0.05, y_m=-0.08, width_m=0.066, length_m=0.066, height_m=0.08, round=True)
CARTON = Solid(x_m=-0.05, y_m=0.1, width_m=0.055, length_m=0.055, height_m=0.14)
FLAT_BOX = Solid(x_m=0.0, y_m=0.02, width_m=0.04, length_m=0.077, height_m=0.018)
CAP = Solid(x_m=-0.1, y_m=0.15, width_m=0.028, length_m=0.028, height_m=0.146, round=True)

angles = st.floats(-180, 180)


def measured_top(scene: Scene, label: int = 1) -> tuple[float, float, float]:
    surface = seen_surface(
        scene.mask(label), scene.depth_m, INTRINSICS, world_from_camera=scene.world_from_camera
    )
    x, y = smallest_rectangle(top_outline(surface)).centre_xy_m
    return x, y, top_height_m(surface)


@pytest.mark.parametrize("solid", [CAN, CARTON, FLAT_BOX, CAP])
def test_the_middle_of_the_top_is_found_though_only_the_front_is_seen(solid: Solid) -> None:
    x, y, z = measured_top(draw(solid))

    assert np.hypot(x - solid.x_m, y - solid.y_m) < 0.003
    assert abs(z - solid.height_m) < 0.002


def test_a_camera_straight_above_measures_the_same_middle() -> None:
    above = looking_from((0.0, 0.0, 0.8), (0.0, 0.0, 0.0))

    x, y, z = measured_top(draw(FLAT_BOX, world_from_camera=above))

    assert np.hypot(x - FLAT_BOX.x_m, y - FLAT_BOX.y_m) < 0.002
    assert abs(z - FLAT_BOX.height_m) < 0.002


@settings(max_examples=25, deadline=None)
@given(yaw_deg=st.floats(-80, 80), x_m=st.floats(-0.15, 0.15), y_m=st.floats(-0.2, 0.2))
def test_the_short_side_of_a_box_is_found_at_any_yaw(
    yaw_deg: float, x_m: float, y_m: float
) -> None:
    box = Solid(x_m=x_m, y_m=y_m, width_m=0.045, length_m=0.085, height_m=0.03, yaw_deg=yaw_deg)
    scene = draw(box)
    surface = seen_surface(
        scene.mask(), scene.depth_m, INTRINSICS, world_from_camera=ACROSS_THE_TABLE
    )

    top = smallest_rectangle(top_outline(surface))

    off_deg = (np.degrees(top.short_yaw_rad) - yaw_deg + 90) % 180 - 90
    assert abs(off_deg) < 10
    assert np.hypot(top.centre_xy_m[0] - x_m, top.centre_xy_m[1] - y_m) < 0.006
    assert abs(top.short_m - 0.045) < 0.01
    assert abs(top.long_m - 0.085) < 0.012


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_depth_speckle_and_pixels_between_two_depths_do_not_move_the_measurement(
    seed: int,
) -> None:
    scene = draw(CAN)
    clean = measured_top(scene)
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(scene.mask())
    picked = rng.random(rows.size) < 0.01
    depth = scene.depth_m.copy()
    depth[rows[picked], columns[picked]] += rng.choice([-0.2, -0.06, 0.06, 0.2], size=picked.sum())
    # A mask that is a pixel too wide on its upper side takes in the table behind.
    wide = scene.mask() | np.roll(scene.mask(), -1, axis=0)

    noisy = seen_surface(wide, depth, INTRINSICS, world_from_camera=scene.world_from_camera)

    x, y = smallest_rectangle(top_outline(noisy)).centre_xy_m
    assert np.hypot(x - clean[0], y - clean[1]) < 0.004
    assert abs(top_height_m(noisy) - clean[2]) < 0.004


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_mask_is_measured_or_refused_with_a_code(data: st.DataObject) -> None:
    height, width = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    bits = data.draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))
    depths = data.draw(
        st.lists(
            st.sampled_from([0.0, 0.5, 0.501, 1.0]),
            min_size=height * width,
            max_size=height * width,
        )
    )
    mask = np.array(bits).reshape(height, width)
    depth = np.array(depths, dtype=np.float32).reshape(height, width)
    if not (mask & (depth > 0)).any():
        with pytest.raises(GeometryError) as caught:
            seen_surface(mask, depth, INTRINSICS, world_from_camera=ACROSS_THE_TABLE)
        assert caught.value.code == (
            "empty_point_cloud_after_depth_filter" if mask.any() else "empty_target_mask"
        )
        return
    surface = seen_surface(mask, depth, INTRINSICS, world_from_camera=ACROSS_THE_TABLE)
    rectangle = smallest_rectangle(top_outline(surface))
    assert 0 <= rectangle.short_m <= rectangle.long_m
    assert np.isfinite(surface.extended_m).all()
    assert len(surface.points_m) <= np.count_nonzero(mask & (depth > 0))


def test_images_of_different_sizes_are_refused() -> None:
    with pytest.raises(GeometryError) as caught:
        seen_surface(
            np.ones((4, 4), dtype=np.bool_),
            np.ones((4, 5), dtype=np.float32),
            INTRINSICS,
            world_from_camera=ACROSS_THE_TABLE,
        )

    assert caught.value.code == "image_shape_mismatch"


@given(roll=angles, pitch=st.floats(-89, 89), yaw=angles)
def test_angles_survive_the_way_through_a_matrix(roll: float, pitch: float, yaw: float) -> None:
    matrix = matrix_from_euler_deg(roll, pitch, yaw)

    assert np.allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)
    assert np.allclose(matrix_from_euler_deg(*euler_deg_from_matrix(matrix)), matrix, atol=1e-9)


@given(pitch=st.sampled_from([-90.0, 90.0]), roll=angles, yaw=angles)
def test_looking_straight_up_or_down_keeps_the_rotation(
    pitch: float, roll: float, yaw: float
) -> None:
    matrix = matrix_from_euler_deg(roll, pitch, yaw)

    assert np.allclose(matrix_from_euler_deg(*euler_deg_from_matrix(matrix)), matrix, atol=1e-6)


def test_a_quaternion_turns_points_as_its_angles_do() -> None:
    half = np.radians(30.0) / 2

    about_z = matrix_from_quat_xyzw((0.0, 0.0, 2 * np.sin(half), 2 * np.cos(half)))

    assert np.allclose(about_z, matrix_from_euler_deg(0, 0, 30))
    with pytest.raises(ValueError, match="length zero"):
        matrix_from_quat_xyzw((0.0, 0.0, 0.0, 0.0))
