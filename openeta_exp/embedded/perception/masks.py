"""Instances of a rendered frame as the detections a segmentation model would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from openeta_exp.domain.geometry import Mask
from openeta_exp.embedded.perception.naming import match
from openeta_exp.embedded.simulator.frames import FrameInstance, FrameTruth
from openeta_exp.wire.perception_tools import WirePoint

MIN_PIXELS = 12
"""Fewer are a sliver behind something else, too little to be sure of."""
POINT_LABEL = "point_prompt"

_PART_RADIUS_SHARE = 0.35
_POINT_SCORES = (0.95, 0.7, 0.45)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """One mask.

    Attributes:
        backend_index: Position before ranking.
    """

    label: str
    score: float
    mask: Mask
    backend_index: int

    @property
    def bbox_xyxy(self) -> tuple[int, int, int, int]:
        """Half-open pixel box; all zero for an empty mask."""
        rows, columns = (np.flatnonzero(self.mask.any(axis=axis)) for axis in (1, 0))
        if rows.size == 0:
            return 0, 0, 0, 0
        return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1

    @property
    def area_px(self) -> int:
        return int(np.count_nonzero(self.mask))


def find_named(frame: FrameTruth, prompt: str, *, threshold: float) -> list[Found]:
    """Visible instances whose name fits the prompt at least as well as `threshold`, best first.

    Equally good ones are ordered by visible area, then by name.
    """
    areas = np.bincount(frame.segmentation.ravel().clip(min=0))
    fitting = [
        (match(prompt, (instance.label, instance.category, instance.name)), instance)
        for instance in frame.instances
        if _area(areas, instance) >= MIN_PIXELS
    ]
    ranked = sorted(
        ((score, instance) for score, instance in fitting if score > 0 and score >= threshold),
        key=lambda each: (-each[0], -_area(areas, each[1]), each[1].name),
    )
    return [
        Found(
            label=instance.label,
            score=round(score, 4),
            mask=frame.segmentation == instance.instance_id,
            backend_index=frame.instances.index(instance),
        )
        for score, instance in ranked
    ]


def find_at(frame: FrameTruth, points: Sequence[WirePoint]) -> list[Found]:
    """Three masks for prompt points, as ambiguous as a point is: thing, connected piece, part.

    The thing is every instance under a foreground point; the piece is what of it is connected to
    those points; the part is the piece's pixels close to them. A mask that covers a background
    point loses half its score, so a smaller one wins if only that avoids it.
    """
    foreground = [point for point in points if point.label == 1]
    ids = {int(frame.segmentation[point.y, point.x]) for point in foreground}
    thing = np.isin(frame.segmentation, list(ids))
    pieces, _ = ndimage.label(thing)
    piece = np.isin(pieces, [int(pieces[point.y, point.x]) for point in foreground])
    masks = (thing, piece, _part(piece, foreground))
    scored = [
        (_score(mask, base, points), index, mask)
        for index, (mask, base) in enumerate(zip(masks, _POINT_SCORES, strict=True))
    ]
    scored.sort(key=lambda each: (-each[0], each[1]))
    return [
        Found(label=POINT_LABEL, score=score, mask=mask, backend_index=index)
        for score, index, mask in scored
    ]


def objects_in(frame: FrameTruth) -> list[Mask]:
    """Masks of the movable things that can be seen, by instance id."""
    areas = np.bincount(frame.segmentation.ravel().clip(min=0))
    return [
        frame.segmentation == instance.instance_id
        for instance in frame.instances
        if instance.kind == "object" and _area(areas, instance) >= MIN_PIXELS
    ]


def robot_in(frame: FrameTruth) -> Mask:
    """Pixels of the robot itself."""
    robots = [instance.instance_id for instance in frame.instances if instance.kind == "robot"]
    return np.isin(frame.segmentation, robots)


def _area(areas: NDArray[np.intp], instance: FrameInstance) -> int:
    return int(areas[instance.instance_id]) if instance.instance_id < areas.size else 0


def _part(piece: Mask, points: Sequence[WirePoint]) -> Mask:
    elsewhere = np.ones(piece.shape, dtype=np.bool_)
    elsewhere[[point.y for point in points], [point.x for point in points]] = False
    radius = max(1.0, _PART_RADIUS_SHARE * float(np.sqrt(np.count_nonzero(piece))))
    return np.asarray(piece & (ndimage.distance_transform_edt(elsewhere) <= radius))


def _score(mask: Mask, base: float, points: Sequence[WirePoint]) -> float:
    missed = sum(bool(mask[point.y, point.x]) for point in points if point.label == 0)
    return base * 0.5 if missed else base
