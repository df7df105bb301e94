"""Answers of perception services as findings of the port, once they keep the contract.

A service that contradicts itself is not half believed: a mask that is not the size of the image
or a count that is wrong says that something else is wrong too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from pydantic import ValidationError

from openeta_exp.domain.geometry import Mask
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import CameraFrame
from openeta_exp.ports.perception import Answer, Detection, GraspCandidate, Point
from openeta_exp.wire.base64_text import decode_base64
from openeta_exp.wire.images import ImageError, decode_grey
from openeta_exp.wire.perception_tools import (
    POINT_CANDIDATES,
    GraspDetails,
    ImageSize,
    PointDetails,
    ReplyError,
    SegmentDetails,
    WireDetection,
    WireGrasp,
    WireRecord,
    first_problem,
)

POINT_LABEL = "point_prompt"

DetailsT = TypeVar("DetailsT", bound=WireRecord)

_ROTATION_TOLERANCE = 1e-3
_TIP_TOLERANCE_M = 1e-3


def detections(details: JsonObject, frame: CameraFrame) -> Answer[Detection]:
    """Read the answer to `segment`.

    Boxes and areas are taken from the masks: a model's own box is an estimate of its own.

    Raises:
        ReplyError: The answer breaks the contract.
    """
    parsed = _parse(SegmentDetails, details)
    _check_size(parsed.metadata.image_size, frame)
    found = [_detection(each, frame) for each in parsed.detections]
    found.sort(key=lambda each: -each.score)
    return Answer(found=tuple(found), stamp=_stamp(parsed.backend, parsed.model))


def point_detections(
    details: JsonObject, frame: CameraFrame, points: Sequence[Point]
) -> Answer[Detection]:
    """Read the answer to `segment_points`: three masks, ranked and consistent in every field.

    Raises:
        ReplyError: Listing everything that breaks the contract.
    """
    parsed = _parse(PointDetails, details)
    asked = [(point.x, point.y, point.label) for point in points]
    echoed = [(point.x, point.y, point.label) for point in parsed.points]
    rows = parsed.detections
    scores = [row.score for row in rows]
    overlays = {
        (each.rank, each.backend_index) for each in parsed.artifacts if each.rank is not None
    }
    counts = (parsed.detection_count, parsed.metadata.detection_count or POINT_CANDIDATES)
    _require(
        {
            f"echoes the points {echoed}, was asked for {asked}": echoed == asked,
            f"has {len(rows)} candidates and counts {counts}, must be {POINT_CANDIDATES}": (
                {len(rows), *counts} == {POINT_CANDIDATES}
            ),
            "counts other points than were asked for": (
                parsed.metadata.point_count in (None, len(asked))
            ),
            "ranks must be 0, 1, 2 in order": [row.rank for row in rows] == [0, 1, 2],
            "backend indices must be 0, 1, 2 in some order": (
                sorted(row.backend_index for row in rows) == [0, 1, 2]
            ),
            "scores must descend": all(first >= then for first, then in pairwise(scores)),
            f"labels must be {POINT_LABEL}": all(row.label == POINT_LABEL for row in rows),
            "needs one overlay per candidate, named by rank and backend index": (
                overlays == {(row.rank, row.backend_index) for row in rows}
                and len(parsed.artifacts) == POINT_CANDIDATES
            ),
        }
    )
    _check_size(parsed.metadata.image_size, frame)
    found = tuple(_detection(row, frame) for row in rows)
    _require(
        {
            f"candidate {row.rank} says box {list(row.bbox_xyxy)} and {row.area_px} pixels, its "
            f"mask has {list(each.bbox_xyxy)} and {each.area_px}": (
                row.bbox_xyxy == each.bbox_xyxy and row.area_px == each.area_px
            )
            for row, each in zip(rows, found, strict=True)
        }
    )
    return Answer(found=found, stamp=_stamp(parsed.backend, parsed.model))


def grasps(details: JsonObject, *, stretch: float) -> Answer[GraspCandidate]:
    """Read the answer to `detect_grasps`.

    Args:
        details: As sent.
        stretch: Metres of the world per metre of the answer.

    Raises:
        ReplyError: The answer breaks the contract.
    """
    parsed = _parse(GraspDetails, details)
    rows = sorted(parsed.grasp_candidates, key=lambda row: row.rank)
    _require(
        {
            "ranks must be 0, 1, 2, ...": [row.rank for row in rows] == [*range(len(rows))],
            "scores must descend": all(a.score >= b.score for a, b in pairwise(rows)),
            "ids must differ": len({row.id for row in rows}) == len(rows),
        }
    )
    for row in rows:
        _check_grasp(row)
    return Answer(
        found=tuple(_stretched(row, stretch) for row in rows),
        stamp=_stamp(parsed.backend, parsed.model),
    )


def _check_grasp(row: WireGrasp) -> None:
    rotation = np.array(row.rotation_matrix)
    tip = np.array(row.translation_xyz) + row.depth * rotation[:, 0]
    _require(
        {
            f"{row.id}: rotation_matrix is no rotation": (
                np.allclose(rotation @ rotation.T, np.eye(3), atol=_ROTATION_TOLERANCE)
                and float(np.linalg.det(rotation)) > 0
            ),
            f"{row.id}: gripper_tip_position_xyz is not depth along the approach axis": (
                np.allclose(tip, row.gripper_tip_position_xyz, atol=_TIP_TOLERANCE_M)
            ),
            f"{row.id}: a length is negative": min(row.width, row.depth, row.height) >= 0,
        }
    )


def _stretched(row: WireGrasp, stretch: float) -> GraspCandidate:
    x, y, z = row.translation_xyz
    return GraspCandidate(
        candidate_id=row.id,
        rank=row.rank,
        score=row.score,
        translation_m=(x * stretch, y * stretch, z * stretch),
        rotation=row.rotation_matrix,
        width_m=row.width * stretch,
        depth_m=row.depth * stretch,
        height_m=row.height * stretch,
    )


def _detection(row: WireDetection, frame: CameraFrame) -> Detection:
    try:
        png = decode_base64(row.mask.base64)
        pixels = decode_grey(png)
    except (ImageError, ValueError) as error:
        raise ReplyError(f"mask of {row.label!r}: {error}") from error
    mask = pixels == 255
    _require(
        {
            f"mask of {row.label!r} is {mask.shape[1]} x {mask.shape[0]}, the image "
            f"{frame.width} x {frame.height}": mask.shape == (frame.height, frame.width),
            f"mask of {row.label!r} has values other than 0 and 255": (
                not (pixels[~mask] != 0).any()
            ),
        }
    )
    return Detection(
        label=row.label,
        score=row.score,
        bbox_xyxy=_box_of(mask),
        area_px=int(np.count_nonzero(mask)),
        mask_png=png,
    )


def _box_of(mask: Mask) -> tuple[int, int, int, int]:
    """Half-open box around the True pixels; all zero without any."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if rows.size == 0:
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _check_size(size: ImageSize | None, frame: CameraFrame) -> None:
    if size is not None and (size.width, size.height) != (frame.width, frame.height):
        raise ReplyError(
            f"image_size is {size.width} x {size.height}, the image {frame.width} x {frame.height}"
        )


def _parse(kind: type[DetailsT], details: JsonObject) -> DetailsT:
    try:
        return kind.model_validate(details)
    except ValidationError as error:
        raise ReplyError(first_problem(error)) from error


def _require(rules: Mapping[str, bool]) -> None:
    broken = [rule for rule, held in rules.items() if not held]
    if broken:
        raise ReplyError("; ".join(broken))


def _stamp(backend: str, model: str) -> str:
    return backend if model in ("", backend) else f"{backend}:{model}"
