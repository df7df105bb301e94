"""Which way fingers close on a thing, and how far apart they have to be for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openeta_exp.domain.geometry import Array, Rectangle, Surface, top_height_m

OTHER_YAW_COST = 0.14
"""What closing another way than the best loses of a grasp's score."""

_FINGER_REACH_M = 0.045
_FINGER_HALF_WIDTH_M = 0.012
_ACROSS_SIGHT = 0.9
_HIDDEN_SHARE = 0.75
_ROUND = 0.85
"""Short over long side from which on no side is the short one,"""
_ALIKE_M = 0.008
"""or the difference in lengths up to which pixels cannot tell."""
_PIXEL_M = 0.004
"""What a pixel shows at arm's length."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grip:
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
    def of(cls, surface: Surface, top: Rectangle, *, image_right: Array) -> Grip:
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
        and counts as far from the centre as the front; so does a side that something hides.
        """
        whole = _along_closing_axis(self.whole_xy_m - centre_xy_m, yaw_rad)
        symmetric = 2 * float(np.abs(whole).max())
        if abs(np.cos(yaw_rad - self.sideways_rad)) <= _ACROSS_SIGHT:
            return symmetric
        seen = float(np.ptp(_along_closing_axis(self.seen_xy_m - centre_xy_m, yaw_rad)))
        return seen if seen > _HIDDEN_SHARE * symmetric else symmetric


def _along_closing_axis(offsets: Array, yaw_rad: float) -> Array:
    """Positions along the axis of the points that fingers would meet; of all if there are none."""
    cos, sin = np.cos(yaw_rad), np.sin(yaw_rad)
    along = offsets[:, 0] * cos + offsets[:, 1] * sin
    across = offsets[:, 1] * cos - offsets[:, 0] * sin
    between = along[np.abs(across) <= _FINGER_HALF_WIDTH_M]
    return np.asarray(between if between.size else along)


def closing_yaws(footprint: Rectangle, grip: Grip) -> list[tuple[float, float]]:
    """Closing directions and what they cost of a grasp's score, the best one first.

    The short side closes best. A thing without one is closed on along the image's horizontal:
    positions across the line of sight are the most certain ones.
    """
    short = footprint.short_yaw_rad
    if not is_round(footprint):
        return [(short, 0.0), (short + np.pi / 2, 1.5 * OTHER_YAW_COST)]
    sideways = grip.sideways_rad
    across = [_extent(grip.whole_xy_m, yaw) for yaw in (sideways, sideways + np.pi / 2)]
    # A box turned by more than a few degrees would take up more room than a pixel's worth.
    if np.prod(across) <= (footprint.short_m + _PIXEL_M) * (footprint.long_m + _PIXEL_M):
        best = sideways
    else:
        best = min((short, short + np.pi / 2), key=lambda yaw: abs(np.sin(yaw - sideways)))
    others = (np.pi / 2, np.pi / 6, -np.pi / 6, np.pi / 3, -np.pi / 3)
    return [(best, 0.0), *((best + turn, OTHER_YAW_COST) for turn in others)]


def is_round(footprint: Rectangle) -> bool:
    difference = footprint.long_m - footprint.short_m
    return difference <= max(_ALIKE_M, (1 - _ROUND) * footprint.long_m)


def _extent(points_xy: Array, yaw: float) -> float:
    along = points_xy[:, 0] * np.cos(yaw) + points_xy[:, 1] * np.sin(yaw)
    return float(np.ptp(along))
