"""Grasps come from above, close on the short side and keep clear of the neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.domain.geometry import Array, seen_surface, to_world
from openeta_exp.embedded.perception.grasping import Grasp, plan_grasps
from openeta_exp.embedded.perception.hand import room_for
from tests.depth_scenes import INTRINSICS, Scene, Solid, draw

SIDEWAYS = np.array([0.0, 1.0, 0.0])
"""Image x of the camera of `depth_scenes`."""


def everything_else(scene: Scene, label: int = 1) -> Array:
    v, u = np.nonzero(scene.labels != label)
    z = scene.depth_m[v, u].astype(np.float64)
    rays = np.stack(
        [
            (u + 0.5 - INTRINSICS.cx) / INTRINSICS.fx * z,
            (v + 0.5 - INTRINSICS.cy) / INTRINSICS.fy * z,
            z,
        ],
        axis=1,
    )
    return to_world(rays, scene.world_from_camera)


def planned(*solids: Solid, avoid_collisions: bool = True) -> list[Grasp]:
    """Grasps on the first solid, the others being neighbours."""
    scene = draw(*solids)
    surface = seen_surface(
        scene.mask(), scene.depth_m, INTRINSICS, world_from_camera=scene.world_from_camera
    )
    return plan_grasps(
        surface,
        everything_else(scene),
        image_right=SIDEWAYS,
        avoid_collisions=avoid_collisions,
    )


@settings(max_examples=20, deadline=None)
@given(yaw_deg=st.floats(-85, 85), y_m=st.floats(-0.15, 0.15))
def test_the_best_grasp_of_a_box_closes_on_its_short_side_in_the_middle(
    yaw_deg: float, y_m: float
) -> None:
    box = Solid(x_m=0.0, y_m=y_m, width_m=0.045, length_m=0.1, height_m=0.06, yaw_deg=yaw_deg)

    best = planned(box)[0]

    off_deg = (np.degrees(best.closing_yaw_rad) - yaw_deg + 90) % 180 - 90
    assert abs(off_deg) < 10
    assert best.centre_m == pytest.approx((0.0, y_m, 0.06), abs=0.006)
    assert best.width_m == pytest.approx(0.045, abs=0.014)
    assert best.depth_m == pytest.approx(0.03)


def test_a_round_thing_is_closed_on_across_the_line_of_sight() -> None:
    can = Solid(x_m=0.0, y_m=0.1, width_m=0.066, length_m=0.066, height_m=0.08, round=True)

    best = planned(can)[0]

    assert abs(np.degrees(best.closing_yaw_rad)) == pytest.approx(90)
    assert best.width_m == pytest.approx(0.066, abs=0.006)
    assert best.centre_m[:2] == pytest.approx((0.0, 0.1), abs=0.003)


def test_a_corner_hidden_by_something_in_front_does_not_make_a_box_narrower() -> None:
    flat = Solid(x_m=-0.12, y_m=0.0, width_m=0.081, length_m=0.046, height_m=0.028)
    in_front = Solid(x_m=0.02, y_m=0.013, width_m=0.03, length_m=0.03, height_m=0.11, round=True)

    best = planned(flat, in_front)[0]

    assert best.width_m == pytest.approx(0.046, abs=0.008)
    assert abs(np.degrees(best.closing_yaw_rad)) == pytest.approx(90, abs=8)


def test_a_flat_box_is_not_gripped_through_the_table() -> None:
    flat = Solid(x_m=0.0, y_m=0.0, width_m=0.077, length_m=0.04, height_m=0.018)

    assert all(0.003 < grasp.depth_m < 0.012 for grasp in planned(flat))


def test_candidates_differ_in_more_than_depth_before_they_differ_in_depth() -> None:
    box = Solid(x_m=0.0, y_m=0.0, width_m=0.045, length_m=0.1, height_m=0.08)

    first, second, third = planned(box)[:3]

    assert first.centre_m != second.centre_m != third.centre_m
    assert first.depth_m == second.depth_m == third.depth_m


def test_what_does_not_fit_between_the_fingers_has_no_grasp() -> None:
    crate = Solid(x_m=0.0, y_m=0.0, width_m=0.16, length_m=0.16, height_m=0.1)

    assert planned(crate) == []


def test_a_tall_neighbour_moves_the_grasp_along_the_long_side() -> None:
    flat = Solid(x_m=0.0, y_m=0.0, width_m=0.081, length_m=0.043, height_m=0.018)
    can = Solid(x_m=-0.05, y_m=-0.08, width_m=0.066, length_m=0.066, height_m=0.08, round=True)

    careful, careless = (planned(flat, can, avoid_collisions=avoid)[0] for avoid in (True, False))

    assert careless.centre_m[:2] == pytest.approx((0.0, 0.0), abs=0.004)
    assert careful.centre_m[0] > 0.008
    assert not careful.collides


def test_a_grasp_with_no_room_is_still_offered_with_a_low_score() -> None:
    flat = Solid(x_m=0.0, y_m=0.0, width_m=0.081, length_m=0.043, height_m=0.018)
    walls = [
        Solid(x_m=0.0, y_m=side * 0.053, width_m=0.2, length_m=0.05, height_m=0.09)
        for side in (-1, 1)
    ]

    grasps = planned(flat, *walls)

    assert grasps
    assert all(grasp.collides and grasp.score < 0.55 for grasp in grasps)


def test_scores_descend_and_stay_in_range() -> None:
    box = Solid(x_m=0.0, y_m=0.0, width_m=0.045, length_m=0.1, height_m=0.06)

    scores = [grasp.score for grasp in planned(box)]

    assert scores == sorted(scores, reverse=True)
    assert all(0.0 < score <= 1.0 for score in scores)


@pytest.mark.parametrize(
    ("point_m", "collides"),
    [
        ((0.0, 0.047, 0.01), True),
        ((0.0, -0.047, 0.01), True),
        ((0.0, 0.03, 0.01), False),
        ((0.03, 0.047, 0.01), False),
        ((0.0, 0.047, -0.01), False),
        ((0.025, 0.09, 0.05), True),
        ((0.025, 0.09, 0.02), False),
        ((0.0, 0.12, 0.05), False),
    ],
)
def test_only_points_inside_the_open_hand_are_in_its_way(
    point_m: tuple[float, float, float], collides: bool
) -> None:
    points = np.array([point_m] * 3)

    room = room_for(points, between_pads_m=np.zeros(3), closing_yaw_rad=np.pi / 2)

    assert room.collides is collides
