"""What a client may send: one frozen record per tool, and the code for each thing wrong with it.

Unknown arguments are ignored: OpenETA's client adds `depth_cutoff_factor` to AnyGrasp calls.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError, field_validator

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import Intrinsics
from openeta_exp.domain.record import Record
from openeta_exp.wire.base64_text import decode_base64
from openeta_exp.wire.images import DEPTH_SCALE
from openeta_exp.wire.perception_tools import MAX_POINTS, WirePoint, first_problem

MAX_DEPTH_SHRINK = 4.0


class Refusal(Exception):  # noqa: N818 - the fact, not the category
    """A call that is not answered.

    Attributes:
        reason: Code of the contract.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ToolArguments(Record):
    """Arguments of one call; tolerant of keys it does not know."""

    # The docstrings become the descriptions that an agent reads.
    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)


class Segment(ToolArguments):
    image_base64: str = Field(min_length=1)
    """PNG bytes of a frame exactly as the simulator sent it."""
    prompt: str = Field(min_length=1, pattern=r"\S")
    """A noun phrase such as `the alphabet soup`."""
    image_format: str = "png"
    confidence_threshold: float = Field(default=0.5, ge=0.0, le=1.0)


class SegmentPoints(ToolArguments):
    image_base64: str = Field(min_length=1)
    """PNG bytes of a frame exactly as the simulator sent it."""
    points: tuple[WirePoint, ...] = Field(min_length=1, max_length=MAX_POINTS)
    """Pixels from the top left; at least one with label 1."""
    image_format: str = "png"

    @field_validator("points")
    @classmethod
    def _some_foreground(cls, points: tuple[WirePoint, ...]) -> tuple[WirePoint, ...]:
        if not any(point.label == 1 for point in points):
            raise ValueError("at least one point needs label 1")
        return points


class Picture(ToolArguments):
    format: str = "png"
    base64: str = Field(min_length=1)


class ScaledIntrinsics(ToolArguments):
    """Pinhole model in pixels, and what a depth pixel means."""

    fx: float = Field(gt=0)
    fy: float = Field(gt=0)
    cx: float
    cy: float
    scale: float = DEPTH_SCALE
    """Depth pixel value per metre of the answer. The images hold millimetres, so a scale of
    2000 shrinks the scene by two, as clients do to get under AnyGrasp's depth limit."""

    @property
    def pinhole(self) -> Intrinsics:
        return Intrinsics(fx=self.fx, fy=self.fy, cx=self.cx, cy=self.cy)

    @property
    def shrink(self) -> float:
        """How many metres of the world are one metre of the answer.

        Raises:
            Refusal: The scale is no number a client could mean.
        """
        if not math.isfinite(self.scale) or self.scale <= 0:
            raise Refusal("invalid_depth_scale", f"intrinsics.scale is {self.scale}")
        shrink = self.scale / DEPTH_SCALE
        if not 1.0 - 1e-6 <= shrink <= MAX_DEPTH_SHRINK + 1e-6:
            raise Refusal(
                "depth_scale_mismatch",
                f"depth images of this simulator hold millimetres; intrinsics.scale must lie in "
                f"[{DEPTH_SCALE:g}, {MAX_DEPTH_SHRINK * DEPTH_SCALE:g}], is {self.scale:g}",
            )
        return shrink


class DetectGrasps(ToolArguments):
    rgb: Picture
    """The colour frame exactly as the simulator sent it."""
    depth: Picture
    """16-bit depth of the same frame."""
    intrinsics: ScaledIntrinsics
    mode: Literal["targeted", "scene"] = "targeted"
    target_mask: Picture | None = None
    """One channel, not black on the target; needed in mode targeted, forbidden in mode scene."""
    approach_steering: Annotated[tuple[float, float, float] | None, Field()] = None
    """Wanted approach direction, camera frame; grasps further away than `approach_thresh` drop."""
    approach_thresh: float = Field(default=math.pi / 4, gt=0, le=math.pi)
    """Radians."""
    collision_detection: bool = True
    """Prefer grasps whose fingers and hand clear the neighbours."""
    dense_grasp: bool = False
    """Accepted; the answer is dense as it is."""

    @field_validator("approach_steering")
    @classmethod
    def _has_a_direction(
        cls, steering: tuple[float, float, float] | None
    ) -> tuple[float, float, float] | None:
        if steering is not None and math.hypot(*steering) < 1e-6:
            raise ValueError("a direction of length zero")
        return steering


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)

_FIELD_CODES = {
    "image_base64": "missing_image",
    "prompt": "missing_prompt",
    "points": "invalid_points",
    "rgb": "rgb_decode_failed",
    "depth": "depth_decode_failed",
    "target_mask": "target_mask_decode_failed",
    "intrinsics": "invalid_intrinsics",
    "mode": "invalid_mode",
    "approach_steering": "invalid_approach_steering",
}
_MISSING_CODES = {
    "points": "missing_points",
    "intrinsics": "missing_intrinsics",
}


def parse(kind: type[ArgumentsT], given: JsonObject) -> ArgumentsT:
    """Read the arguments of a call.

    Raises:
        Refusal: With the contract's code for the first field that does not fit.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        code = _FIELD_CODES.get(name, "invalid_option")
        if given.get(name) in (None, [], {}):
            code = _MISSING_CODES.get(name, code)
        raise Refusal(code, first_problem(error)) from error


def image_bytes(text: str, *, code: str) -> bytes:
    """Raises: Refusal: With `code`, if the text is not base64 or says nothing."""
    try:
        content = decode_base64(text)
    except ValueError as error:
        raise Refusal(code, f"not base64: {error}") from error
    if not content:
        raise Refusal(code, "no bytes")
    return content
