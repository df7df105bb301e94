"""The space a Panda hand takes up around a vertical grasp, and who else stands in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openeta_exp.domain.geometry import Array

# Of the Panda hand as robosuite models it, metres, from the point between the finger pads.
_FINGER_INNER_M = 0.040
_FINGER_OUTER_M = 0.056
_FINGER_HALF_WIDTH_M = 0.011
_HAND_ABOVE_M = 0.031
_HAND_TOP_M = 0.14
_HAND_HALF_LENGTH_M = 0.102
_HAND_HALF_WIDTH_M = 0.032

REACH_M = 0.12
"""No point further from the grasp than this, horizontally, can be in the way."""
_MARGIN_M = 0.006
_SPECKLE_POINTS = 2


@dataclass(frozen=True, slots=True)
class Room:
    """How much of the hand's space others take up.

    Attributes:
        collides: Something stands in the way of an open hand.
        tight: Something stands within 6 mm of it.
    """

    collides: bool
    tight: bool


FREE = Room(collides=False, tight=False)


def room_for(neighbours_m: Array, *, between_pads_m: Array, closing_yaw_rad: float) -> Room:
    """Check an open hand, pointing straight down, against seen surface points `[N, 3]`."""
    if len(neighbours_m) == 0:
        return FREE
    offset = neighbours_m - between_pads_m
    cos, sin = np.cos(closing_yaw_rad), np.sin(closing_yaw_rad)
    along = np.abs(offset[:, 0] * cos + offset[:, 1] * sin)
    across = np.abs(offset[:, 1] * cos - offset[:, 0] * sin)
    up = offset[:, 2]

    def count(margin_m: float) -> int:
        fingers = (
            (along > _FINGER_INNER_M - margin_m)
            & (along < _FINGER_OUTER_M + margin_m)
            & (across < _FINGER_HALF_WIDTH_M + margin_m)
            & (up > 0.0)
        )
        hand = (
            (along < _HAND_HALF_LENGTH_M + margin_m)
            & (across < _HAND_HALF_WIDTH_M + margin_m)
            & (up > _HAND_ABOVE_M - margin_m)
            & (up < _HAND_TOP_M)
        )
        return int(np.count_nonzero(fingers | hand))

    return Room(
        collides=count(0.0) > _SPECKLE_POINTS,
        tight=count(_MARGIN_M) > _SPECKLE_POINTS,
    )
