"""Grips on the rim of something open at the top and too wide to grip whole: a bowl, a basket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from openeta_exp.domain.geometry import Array, Rectangle, Surface, top_height_m

_DIRECTIONS = 8
_STRIP_HALF_WIDTH_M = 0.009
_RIM_BAND_M = 0.008
_THICKEST_M = 0.02
_INSIDE_M = 0.045
_BELOW_RIM_M = 0.012
_SIDE_COST, _UNSEEN_COST = 0.1, 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class RimGrip:
    """Where fingers go on both sides of a wall.

    Attributes:
        xy_m: Middle of the wall.
        yaw_rad: Across the wall.
        cost: What it loses against the best rim grip.
    """

    xy_m: tuple[float, float]
    yaw_rad: float
    thickness_m: float
    cost: float


def rim_grips(
    surface: Surface, top: Rectangle, *, depth_m: float, image_right: Array
) -> Iterator[RimGrip]:
    """Grips around the rim; none on a closed top.

    A wall counts where the outermost of the top band is thin and what is seen inside it lies
    deeper than the fingers go. A wall whose inside is hidden costs extra.
    """
    top_z = top_height_m(surface)
    points = surface.extended_m - np.array([*top.centre_xy_m, top_z])
    sideways = float(np.arctan2(image_right[1], image_right[0]))
    for step in range(_DIRECTIONS):
        yaw = sideways + 2 * np.pi * step / _DIRECTIONS
        cos, sin = np.cos(yaw), np.sin(yaw)
        outwards = points[:, 0] * cos + points[:, 1] * sin
        across = points[:, 1] * cos - points[:, 0] * sin
        strip = (np.abs(across) <= _STRIP_HALF_WIDTH_M) & (outwards > 0)
        rim = outwards[strip & (points[:, 2] >= -_RIM_BAND_M)]
        if rim.size == 0:
            continue
        outer = float(rim.max())
        inner = float(rim[rim > outer - _INSIDE_M].min())
        if outer - inner > _THICKEST_M:
            continue
        inside = strip & (outwards < inner - 0.004) & (outwards > outer - _INSIDE_M)
        heights = points[inside, 2]
        if heights.size and heights.max() > -max(_BELOW_RIM_M, depth_m * 0.75):
            continue
        middle = (outer + inner) / 2
        yield RimGrip(
            xy_m=(
                top.centre_xy_m[0] + middle * float(cos),
                top.centre_xy_m[1] + middle * float(sin),
            ),
            yaw_rad=yaw,
            thickness_m=outer - inner,
            cost=_SIDE_COST * abs(float(np.sin(yaw - sideways)))
            + (0.0 if heights.size else _UNSEEN_COST),
        )
