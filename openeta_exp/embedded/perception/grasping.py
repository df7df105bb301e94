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
from openeta_exp.embedded.perception.hand import FREE, REACH_M, room_for
from openeta_exp.embedded.perception.rim import rim_grips
from openeta_exp.wire.perception_tools import MAX_GRASPS, MAX_GRIPPER_OPENING_M

DEPTH_M = 0.03
"""Preferred way of the pads below the top; further down the hand would sit on the top."""
_ABOVE_SUPPORT_M = 0.010
_LEAST_DEPTH_M = 0.004
_FINGER_REACH_M = 0.045
_FINGER_HALF_WIDTH_M = 0.012
_ACROSS_SIGHT = 0.9
_ROUND = 0.85
"""Short over long side from which on no side is the short one,"""
_ALIKE_M = 0.008
"""or the difference in lengths up to which pixels cannot tell."""
_PIXEL_M = 0.004
"""What a pixel shows at arm's length."""
_SHIFTS_M = (0.012, 0.024, 0.036)
_SHIFT_MARGIN_M = 0.012

# What a grasp loses of its score. Depth costs most: a strategy sets the height by itself, so a
# grasp that differs in depth alone gives a second attempt nothing new.
_BEST_SCORE = 0.95
_OTHER_YAW_COST = 0.14
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Grip:
    """The part of a thing that fingers coming from above reach, seen from above.

    Attributes:
        seen_xy_m: `[K, 2]`.
        whole_xy_m: `[2K, 2]`, completed by symmetry about the middle of the top. Only the front
            is seen; household things are mostly the same behind.
        sideways_rad: Yaw of the image's horizontal.
    """

    seen_xy_m: Array
    whole_xy_m: Array
    sideways_rad: float

    @classmethod
    def of(cls, surface: Surface, top: Rectangle, *, image_right: Array) -> _Grip:
        extended, top_z = surface.extended_m, top_height_m(surface)
        # The lowest rows show where the thing stands as much as the thing.
        reach = 0.9 * min(_FINGER_REACH_M, top_z - float(surface.points_m[:, 2].min()))
        seen = extended[extended[:, 2] >= top_z - reach, :2]
        return cls(
            seen_xy_m=seen,
            whole_xy_m=np.concatenate([seen, 2 * np.array(top.centre_xy_m) - seen]),
            sideways_rad=float(np.arctan2(image_right[1], image_right[0])),
        )

    def width_between_fingers(self, centre_xy_m: Array, yaw_rad: float) -> float:
        """Of the part no further than a finger's width from the closing axis.

        Across the line of sight both sides were seen and are measured. Along it the back was not,
        and counts as far from the centre as the front.
        """
        across_sight = abs(np.cos(yaw_rad - self.sideways_rad)) > _ACROSS_SIGHT
        offsets = (self.seen_xy_m if across_sight else self.whole_xy_m) - centre_xy_m
        cos, sin = np.cos(yaw_rad), np.sin(yaw_rad)
        along = offsets[:, 0] * cos + offsets[:, 1] * sin
        across = offsets[:, 1] * cos - offsets[:, 0] * sin
        between = along[np.abs(across) <= _FINGER_HALF_WIDTH_M]
        if between.size == 0:
            between = along
        return float(np.ptp(between) if across_sight else 2 * np.abs(between).max())


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
    grip = _Grip.of(surface, top, image_right=image_right)
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
    for yaw, yaw_cost in _closing_yaws(footprint, grip):
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


def _closing_yaws(footprint: Rectangle, grip: _Grip) -> list[tuple[float, float]]:
    """Closing directions and their costs, the best one first."""
    short = footprint.short_yaw_rad
    if not _is_round(footprint):
        return [(short, 0.0), (short + np.pi / 2, 1.5 * _OTHER_YAW_COST)]
    sideways = grip.sideways_rad
    across = [_extent(grip.whole_xy_m, yaw) for yaw in (sideways, sideways + np.pi / 2)]
    # A box turned by more than a few degrees would take up more room than a pixel's worth.
    if np.prod(across) <= (footprint.short_m + _PIXEL_M) * (footprint.long_m + _PIXEL_M):
        best = sideways
    else:
        best = min((short, short + np.pi / 2), key=lambda yaw: abs(np.sin(yaw - sideways)))
    others = (np.pi / 2, np.pi / 6, -np.pi / 6, np.pi / 3, -np.pi / 3)
    return [(best, 0.0), *((best + turn, _OTHER_YAW_COST) for turn in others)]


def _is_round(footprint: Rectangle) -> bool:
    difference = footprint.long_m - footprint.short_m
    return difference <= max(_ALIKE_M, (1 - _ROUND) * footprint.long_m)


def _shifts(footprint: Rectangle, *, other_yaw: bool) -> list[tuple[float, float]]:
    """Ways off the middle along the long side, where there is one, and their costs."""
    shifts = [(0.0, 0.0)]
    if _is_round(footprint) or other_yaw:
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


def _extent(points_xy: Array, yaw: float) -> float:
    along = points_xy[:, 0] * np.cos(yaw) + points_xy[:, 1] * np.sin(yaw)
    return float(np.ptp(along))


def _half_turn(yaw: float) -> float:
    return float((yaw + np.pi / 2) % np.pi - np.pi / 2)
