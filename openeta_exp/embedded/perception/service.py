"""The perception service: every tool as a method from arguments to reply."""

from __future__ import annotations

import hashlib
from time import perf_counter

import anyio
import anyio.to_thread

from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.embedded.perception.arguments import (
    DetectGrasps,
    Refusal,
    Segment,
    SegmentPoints,
    image_bytes,
)
from openeta_exp.embedded.perception.frame_source import RememberedFrames
from openeta_exp.embedded.perception.grasp_detection import check_mode, grasps_in
from openeta_exp.embedded.perception.masks import Found, find_at, find_named
from openeta_exp.embedded.perception.overlay import draw_overlay
from openeta_exp.embedded.simulator.frames import FrameSource, FrameTruth
from openeta_exp.errors import SimulatorError
from openeta_exp.wire.base64_text import encode_base64
from openeta_exp.wire.images import ImageError, decode_rgb, encode_mask
from openeta_exp.wire.perception_tools import (
    POINT_CANDIDATES,
    EncodedImage,
    GraspDetails,
    ImageSize,
    PointDetails,
    PointMetadata,
    SegmentDetails,
    SegmentMetadata,
    WireArtifact,
    WireDetection,
    success,
)

BACKEND = "embedded"
SEGMENTATION_MODEL = "simulator-segmentation"
GRASP_MODEL = "masked-depth-top-down"


class PerceptionService:
    """Answers calls on frames of one simulator. May be called by any number of tasks at once.

    Images are worked on in threads, so that a call does not hold up the loop it came in on.
    """

    def __init__(self, frames: FrameSource) -> None:
        self._frames = RememberedFrames(frames)

    async def segment(self, arguments: Segment) -> JsonObject:
        """Raises: Refusal."""
        started = perf_counter()
        png = image_bytes(arguments.image_base64, code="image_decode_failed")
        frame = await self._frame(png, undecodable="image_decode_failed")

        def answer() -> SegmentDetails:
            found = find_named(frame, arguments.prompt, threshold=arguments.confidence_threshold)
            drawn = draw_overlay(decode_rgb(png), [each.mask for each in found])
            return SegmentDetails(
                backend=BACKEND,
                model=SEGMENTATION_MODEL,
                prompt=arguments.prompt,
                detection_count=len(found),
                detections=_detections(found),
                artifacts=(WireArtifact(kind="overlay", base64=encode_base64(drawn)),),
                metadata=SegmentMetadata(
                    duration_s=perf_counter() - started,
                    image_size=_size(frame),
                    detection_count=len(found),
                ),
            )

        details = await anyio.to_thread.run_sync(answer)
        return success(
            f"{counted(details.detection_count, 'detection')} of {arguments.prompt!r}", details
        )

    async def segment_points(self, arguments: SegmentPoints) -> JsonObject:
        """Raises: Refusal."""
        started = perf_counter()
        png = image_bytes(arguments.image_base64, code="image_decode_failed")
        frame = await self._frame(png, undecodable="image_decode_failed")
        size = _size(frame)
        for point in arguments.points:
            if not (0 <= point.x < size.width and 0 <= point.y < size.height):
                raise Refusal(
                    "point_out_of_bounds",
                    f"({point.x}, {point.y}) is outside {size.width} x {size.height} pixels",
                )

        def answer() -> PointDetails:
            found = find_at(frame, arguments.points)
            rgb = decode_rgb(png)
            return PointDetails(
                backend=BACKEND,
                model=SEGMENTATION_MODEL,
                points=arguments.points,
                detection_count=POINT_CANDIDATES,
                detections=_detections(found),
                artifacts=tuple(
                    WireArtifact(
                        kind="candidate_overlay",
                        base64=encode_base64(draw_overlay(rgb, [each.mask])),
                        rank=rank,
                        backend_index=each.backend_index,
                    )
                    for rank, each in enumerate(found)
                ),
                metadata=PointMetadata(
                    duration_s=perf_counter() - started,
                    image_size=size,
                    detection_count=POINT_CANDIDATES,
                    point_count=len(arguments.points),
                    coordinate_units="pixels",
                    coordinate_origin="top_left",
                    multimask_output=True,
                ),
            )

        details = await anyio.to_thread.run_sync(answer)
        return success(
            f"{counted(POINT_CANDIDATES, 'mask')} for {counted(len(arguments.points), 'point')}",
            details,
        )

    async def detect_grasps(self, arguments: DetectGrasps) -> JsonObject:
        """Raises: Refusal."""
        started = perf_counter()
        check_mode(arguments)
        rgb_png = image_bytes(arguments.rgb.base64, code="rgb_decode_failed")
        frame = await self._frame(rgb_png, undecodable="rgb_decode_failed")

        def answer() -> GraspDetails:
            candidates = grasps_in(frame, arguments)
            return GraspDetails(
                backend=BACKEND,
                model=GRASP_MODEL,
                mode=arguments.mode,
                candidate_count=len(candidates),
                grasp_candidates=candidates,
                metadata={
                    "duration_s": perf_counter() - started,
                    "vertical": "world_from_camera of the frame the simulator rendered",
                    "gripper": "panda",
                    "collision_detection": arguments.collision_detection,
                },
            )

        details = await anyio.to_thread.run_sync(answer)
        return success(counted(details.candidate_count, "grasp"), details)

    async def _frame(self, png: bytes, *, undecodable: str) -> FrameTruth:
        try:
            frame = await self._frames.frame_truth(hashlib.sha256(png).hexdigest())
        except SimulatorError as error:
            raise Refusal("backend_unavailable", str(error)) from error
        if frame is not None:
            return frame
        try:
            decode_rgb(png)
        except ImageError as error:
            raise Refusal(undecodable, str(error)) from error
        raise Refusal(
            "image_not_rendered_here",
            "this service knows only frames its simulator rendered lately; send the image of a "
            "current observation unchanged, not a crop, a copy in another format or a photo",
        )


def _detections(found: list[Found]) -> tuple[WireDetection, ...]:
    return tuple(
        WireDetection(
            label=each.label,
            score=each.score,
            bbox_xyxy=each.bbox_xyxy,
            mask=EncodedImage(base64=encode_base64(encode_mask(each.mask))),
            area_px=each.area_px,
            backend_index=each.backend_index,
            rank=rank,
        )
        for rank, each in enumerate(found)
    )


def _size(frame: FrameTruth) -> ImageSize:
    height, width = frame.segmentation.shape
    return ImageSize(width=width, height=height)
