"""The JSON that SAM3 and AnyGrasp servers of the OpenETA contract answer with.

Every answer is `{success, content, details}`; images are `{format, base64}` and no path crosses
the wire. Unknown fields are ignored, because real services send more than is agreed. Pixels
count from the top left, boxes are half-open, lengths are metres in the camera's OpenCV frame.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, JsonValue, ValidationError, model_validator

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record

POINT_CANDIDATES = 3
"""How many masks a point prompt is answered with, always."""
MAX_GRASPS = 20
MAX_POINTS = 64
MAX_GRIPPER_OPENING_M = 0.08

Triple = tuple[float, float, float]


class ReplyError(ValueError):
    """An answer breaks the contract."""


class WireRecord(Record):
    """Part of somebody else's answer: checked where agreed, tolerant of what is not."""

    model_config = ConfigDict(extra="ignore")


class EncodedImage(WireRecord):
    format: str = "png"
    base64: str


class WirePoint(WireRecord):
    """A prompt point in pixels of the original image; label 1 is foreground, 0 background."""

    x: int = Field(strict=True)
    y: int = Field(strict=True)
    label: Literal[0, 1] = 1


class ImageSize(WireRecord):
    """Pixels. Also read from `[width, height]`, which some services send."""

    width: int
    height: int

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: object) -> object:
        if isinstance(value, list | tuple) and len(value) == 2:
            return {"width": value[0], "height": value[1]}
        return value


class WireDetection(WireRecord):
    label: str
    score: float
    bbox_xyxy: tuple[int, int, int, int]
    mask: EncodedImage
    area_px: int
    backend_index: int
    rank: int


class WireArtifact(WireRecord):
    """A picture for people. Overlays of point candidates name the candidate they show."""

    kind: str = ""
    """`overlay` or `candidate_overlay`."""
    format: str = "png"
    base64: str = ""
    rank: int | None = None
    backend_index: int | None = None


class SegmentMetadata(WireRecord):
    duration_s: float | None = None
    image_size: ImageSize | None = None
    detection_count: int | None = None


class SegmentDetails(WireRecord):
    """Answer to `segment`. No detection is a success."""

    tool: Literal["sam3"] = "sam3"
    backend: str
    model: str = "sam3"
    prompt: str | None = None
    prompt_type: Literal["text"] = "text"
    detection_count: int
    detections: tuple[WireDetection, ...]
    ranking: str = "score_descending"
    artifacts: tuple[WireArtifact, ...] = ()
    metadata: SegmentMetadata = SegmentMetadata()

    @model_validator(mode="after")
    def _count_is_true(self) -> Self:
        if self.detection_count != len(self.detections):
            raise ValueError(
                f"detection_count is {self.detection_count}, there are {len(self.detections)}"
            )
        return self


class PointMetadata(WireRecord):
    duration_s: float | None = None
    image_size: ImageSize
    detection_count: int | None = None
    point_count: int | None = None
    coordinate_units: Literal["pixels"]
    coordinate_origin: Literal["top_left"]
    multimask_output: Literal[True]


class PointDetails(WireRecord):
    """Answer to `segment_points`: three ranked masks of the same prompt."""

    tool: Literal["sam3"] = "sam3"
    backend: str
    model: str = "sam3"
    prompt_type: str = "points"
    points: tuple[WirePoint, ...]
    detection_count: int
    detections: tuple[WireDetection, ...]
    ranking: str = "score_descending"
    artifacts: tuple[WireArtifact, ...]
    metadata: PointMetadata


class WireGrasp(WireRecord):
    """One grasp. `gripper_tip_position_xyz` is `translation_xyz` + `depth` x the first column."""

    id: str
    rank: int
    backend_index: int
    frame: Literal["camera"] = "camera"
    camera_frame: Literal["opencv"] = "opencv"
    score: float
    translation_xyz: Triple
    rotation_matrix: tuple[Triple, Triple, Triple]
    """Columns: approach, closing, binormal axis."""
    depth: float
    width: float
    height: float
    gripper_tip_position_xyz: Triple


class GraspDetails(WireRecord):
    """Answer to `detect_grasps`; never empty, because nothing found is a failure."""

    tool: Literal["anygrasp"] = "anygrasp"
    backend: str
    model: str = "anygrasp"
    mode: str = "targeted"
    candidate_count: int
    grasp_candidates: tuple[WireGrasp, ...]
    ranking: str = "score_descending"
    metadata: JsonObject = Field(default_factory=dict)

    @model_validator(mode="after")
    def _count_is_true(self) -> Self:
        found = len(self.grasp_candidates)
        if self.candidate_count != found:
            raise ValueError(f"candidate_count is {self.candidate_count}, there are {found}")
        return self


class FailureDetails(WireRecord):
    tool: str = ""
    backend: str = ""
    model: str = ""
    reason: str = "unknown_error"


class Reply(WireRecord):
    """The envelope, with its details still to be read."""

    success: bool
    content: JsonValue = None
    details: JsonObject = Field(default_factory=dict)

    @property
    def message(self) -> str:
        return self.content if isinstance(self.content, str) else ""


def success(content: str, details: WireRecord) -> JsonObject:
    """A reply with an answer."""
    return {
        "success": True,
        "content": content,
        "details": details.model_dump(mode="json", exclude_none=True),
    }


def failure(content: str, details: FailureDetails) -> JsonObject:
    """A reply without one; `details.reason` is the code."""
    return {"success": False, "content": content, "details": details.model_dump(mode="json")}


def parse_reply(reply: JsonObject) -> Reply:
    """Raises: ReplyError: If the object is no envelope."""
    try:
        return Reply.model_validate(reply)
    except ValidationError as error:
        raise ReplyError(first_problem(error)) from error


def first_problem(error: ValidationError) -> str:
    """The first thing wrong, with the field it is wrong in."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
