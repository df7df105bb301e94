"""Perception services: masks and grasps from images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import CameraFrame

T = TypeVar("T")
Vector3 = tuple[float, float, float]
Matrix3 = tuple[Vector3, Vector3, Vector3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """One segmented instance.

    Attributes:
        bbox_xyxy: Pixels, half-open, top-left origin.
        mask_png: One channel, 0 or 255, the size of the image it belongs to.
    """

    label: str
    score: float
    bbox_xyxy: tuple[int, int, int, int]
    area_px: int
    mask_png: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GraspCandidate:
    """One grasp in the camera's OpenCV frame (x right, y down, z forward), metres.

    Attributes:
        rotation: Columns: approach, closing, binormal axis.
        width_m: Opening the gripper needs.
        depth_m: From the grasp centre to the fingertips along the approach axis.
    """

    candidate_id: str
    rank: int
    score: float
    translation_m: Vector3
    rotation: Matrix3
    width_m: float
    depth_m: float
    height_m: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A prompt point in pixels; label 1 is foreground, 0 background."""

    x: int
    y: int
    label: Literal[0, 1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """What a service found, and how it introduces itself.

    Attributes:
        reason: Code of a refusal (`no_grasp_candidates`, `image_not_rendered_here`, ...); None on
            success. A refusal is an answer: the planner gets to read it.
        stamp: Backend and model, e.g. `embedded`.
    """

    found: tuple[T, ...]
    stamp: str
    reason: str | None = None
    message: str = ""


class Perception(Protocol):
    """SAM3 and AnyGrasp, or what stands in for them. May be shared by any number of episodes."""

    async def segment(self, frame: CameraFrame, *, prompt: str) -> Answer[Detection]:
        """Instances that fit the words, best first. None found is a success with no detection.

        Raises:
            PerceptionError: The service could not answer.
        """
        ...

    async def segment_points(
        self, frame: CameraFrame, *, points: tuple[Point, ...]
    ) -> Answer[Detection]:
        """Exactly three ranked masks for prompt points.

        Raises:
            PerceptionError: The service could not answer.
        """
        ...

    async def detect_grasps(
        self,
        frame: CameraFrame,
        *,
        mask_png: bytes | None,
        collision_detection: bool = True,
    ) -> Answer[GraspCandidate]:
        """Ranked grasps on the masked target, or on the scene without a mask.

        Raises:
            PerceptionError: The service could not answer.
        """
        ...

    async def describe(self) -> JsonObject:
        """Which services answer, and as what.

        Raises:
            PerceptionError: A configured service could not be reached.
        """
        ...

    async def aclose(self) -> None: ...
