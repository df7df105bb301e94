"""Vertical grasps on one thing, from the seen part of its surface.

The vertical is the world's: a camera alone does not know gravity, so the caller has to know where
the camera stood. Grasps come down from above, close along the short side of what the fingers will
touch, and have their centre on the top surface. All in the world frame, metres.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from openeta_exp.domain.geometry import (
    Array,
    Rectangle,
    Surface,
    smallest_rectangle,
    top_height_m,
    top_outline,
)
from openeta_exp.embedded.perception.grip import Grip, closing_yaws, is_round
from openeta_exp.embedded.perception.hand import FREE, REACH_M, room_for
from openeta_exp.embedded.perception.rim import rim_grips
from openeta_exp.wire.perception_tools import MAX_GRASPS, MAX_GRIPPER_OPENING_M

DEPTH_M = 0.03
"""Preferred way of the pads below the top; further down the hand would sit on the top."""
_ABOVE_SUPPORT_M = 0.010
_LEAST_DEPTH_M = 0.004
_SHIFTS_M = (0.012, 0.024, 0.036)
_SHIFT_MARGIN_M = 0.012

# What a grasp loses of its score. Depth costs most: a strategy sets the height by itself, so a
# grasp that differs in depth alone gives a second attempt nothing new.
_BEST_SCORE = 0.95
_SHIFT_COST, _SHIFT_COST_PER_M = 0.06, 2.0
_DEPTH_COST = 0.25
_WIDE_COST, _WIDE_M = 0.08, 0.07
_TIGHT_COST, _COLLISION_COST = 0.04, 0.45
_RIM_COST = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Grasp:
    """One vertical grasp.

    Attributes:
        centre_m: On the height of the top surface.
        depth_m: From there down to between the finger pads.
        width_m: Of what is between the fingers.
        collides: Known only if collisions were asked for.
    """

    score: float
    centre_m: tuple[float, float, float]
    closing_yaw_rad: float
    depth_m: float
    width_m: float
    collides: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """A grip and what it costs before anyone else is considered."""

    xy_m: tuple[float, float]
    yaw_rad: float
    depth_m: float
    width_m: float
    cost: float


def plan_grasps(
    surface: Surface, neighbours_m: Array, *, image_right: Array, avoid_collisions: bool
) -> list[Grasp]:
    """Up to 20 grasps, best first; none if nothing fits between the fingers.

    Args:
        surface: The target.
        neighbours_m: `[N, 3]` seen points of everything else that may be in the way.
        image_right: `[3]`, the camera's x axis. Round things are closed on along it: positions
            across the line of sight are the most certain ones.
        avoid_collisions: Put grasps whose open hand clears the neighbours first.
    """
    top_z = top_height_m(surface)
    options = list(_options(surface, image_right))
    neighbours_m = _in_reach(neighbours_m, options, top_z)
    grasps = []
    for option in options:
        room = FREE
        if avoid_collisions:
            pads = np.array([*option.xy_m, top_z - option.depth_m])
            room = room_for(neighbours_m, between_pads_m=pads, closing_yaw_rad=option.yaw_rad)
        cost = option.cost + _COLLISION_COST * room.collides + _TIGHT_COST * room.tight
        grasps.append(
            Grasp(
                score=round(max(0.01, _BEST_SCORE - cost), 4),
                centre_m=(*option.xy_m, top_z),
                closing_yaw_rad=_half_turn(option.yaw_rad),
                depth_m=option.depth_m,
                width_m=option.width_m,
                collides=room.collides,
            )
        )
    return sorted(grasps, key=lambda grasp: -grasp.score)[:MAX_GRASPS]


def _in_reach(neighbours_m: Array, options: list[_Option], top_z: float) -> Array:
    """Neighbours above the lowest pads and near any of the grasps; the table is not among them."""
    if not options or len(neighbours_m) == 0:
        return neighbours_m
    lowest = top_z - max(option.depth_m for option in options)
    high = neighbours_m[neighbours_m[:, 2] > lowest]
    xy = np.array([option.xy_m for option in options])
    near = (high[:, :2] > xy.min(axis=0) - REACH_M) & (high[:, :2] < xy.max(axis=0) + REACH_M)
    return np.asarray(high[near.all(axis=1)])


def _options(surface: Surface, image_right: Array) -> Iterator[_Option]:
    top_z = top_height_m(surface)
    height = top_z - float(surface.points_m[:, 2].min())
    depth = max(_LEAST_DEPTH_M, min(DEPTH_M, height - _ABOVE_SUPPORT_M))
    top = smallest_rectangle(top_outline(surface))
    grip = Grip.of(surface, top, image_right=image_right)
    footprint = smallest_rectangle(grip.whole_xy_m)
    if footprint.short_m > MAX_GRIPPER_OPENING_M:
        for rim in rim_grips(surface, top, depth_m=min(depth, 0.02), image_right=image_right):
            yield _Option(
                xy_m=rim.xy_m,
                yaw_rad=rim.yaw_rad,
                depth_m=min(depth, 0.02),
                width_m=rim.thickness_m,
                cost=_RIM_COST + rim.cost,
            )
        return
    centre = np.array(top.centre_xy_m)
    for yaw, yaw_cost in closing_yaws(footprint, grip):
        for shift, shift_cost in _shifts(footprint, other_yaw=yaw_cost > 0):
            xy = centre + shift * np.array([-np.sin(yaw), np.cos(yaw)])
            width = grip.width_between_fingers(xy, yaw)
            if width > MAX_GRIPPER_OPENING_M:
                continue
            cost = yaw_cost + shift_cost + (_WIDE_COST if width > _WIDE_M else 0.0)
            for variant, depth_cost in _depths(depth, height):
                if depth_cost and cost:
                    continue
                yield _Option(
                    xy_m=(float(xy[0]), float(xy[1])),
                    yaw_rad=yaw,
                    depth_m=variant,
                    width_m=width,
                    cost=cost + depth_cost,
                )


def _shifts(footprint: Rectangle, *, other_yaw: bool) -> list[tuple[float, float]]:
    """Ways off the middle along the long side, where there is one, and their costs."""
    shifts = [(0.0, 0.0)]
    if is_round(footprint) or other_yaw:
        return shifts
    for shift in _SHIFTS_M:
        if shift <= footprint.long_m / 2 - _SHIFT_MARGIN_M:
            cost = _SHIFT_COST + _SHIFT_COST_PER_M * shift
            shifts += [(shift, cost), (-shift, cost)]
    return shifts


def _depths(depth: float, height: float) -> list[tuple[float, float]]:
    """The preferred depth, then a shallower and a deeper one where there is room."""
    depths = [(depth, 0.0)]
    if depth - 0.01 >= _LEAST_DEPTH_M:
        depths.append((depth - 0.01, _DEPTH_COST))
    if depth + 0.01 <= height - _ABOVE_SUPPORT_M:
        depths.append((depth + 0.01, _DEPTH_COST))
    return depths


def _half_turn(yaw: float) -> float:
    return float((yaw + np.pi / 2) % np.pi - np.pi / 2)
