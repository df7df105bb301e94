"""Grasp strategies (`openeta.grasp_strategy.v1`): parameters for a family of geometries.

The closed key set of the original, with the motion parameters that decide success on LIBERO
added under `motion_policy`.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.record import Record, digest, parse_json
from openeta_exp.errors import ArtifactError

SCHEMA_VERSION: Literal["openeta.grasp_strategy.v1"] = "openeta.grasp_strategy.v1"
MAX_GRIPPER_WIDTH_M = 0.2


class GeometryFamily(StrEnum):
    UPRIGHT_CAN = "upright_can"
    UPRIGHT_BOTTLE = "upright_bottle"
    BOXED_ITEM = "boxed_item"
    BOWL = "bowl"
    APPLE = "apple"
    ARTICULATED_HANDLE = "articulated_handle"
    DRAWER_HANDLE = "drawer_handle"
    OTHER = "other"
    UNKNOWN = "unknown"


class Status(StrEnum):
    """How far a strategy has come. Not part of its identity."""

    CANDIDATE = "candidate"
    VALIDATED = "validated"
    ROLLED_BACK = "rolled_back"


class Orientation(StrEnum):
    PRESERVE_CANDIDATE = "preserve_candidate"
    """The estimator's full rotation."""
    TOP_DOWN = "top_down"
    """Straight down, gripper at its own neutral yaw."""
    TOP_DOWN_PRESERVE_YAW = "top_down_preserve_yaw"
    """Straight down, closing along the estimator's closing axis."""


class GraspHeight(Record):
    """Where along the vertical the fingers close, world frame, metres."""

    reference: Literal["top", "centre"] = "top"
    """Measured from the target's highest visible point or from half its height."""
    offset_m: float = Field(default=-0.028, ge=-0.2, le=0.2)
    """Added to the reference; negative is deeper."""
    floor_m: float = Field(default=0.012, ge=0.0, le=0.2)
    """Never closer than this to the target's lowest point."""


class Release(Record):
    """How the object is let go over the goal."""

    mode: Literal["drop", "lower"] = "lower"
    """From transport height, or lowered into the goal first."""
    clearance_m: float = Field(default=0.02, ge=-0.1, le=0.3)
    """Gap between object and goal floor when the gripper opens in mode `lower`."""


class MotionPolicy(Record):
    """The motion around the grasp."""

    precontact_distance_m: float = Field(default=0.05, ge=0.01, le=0.10)
    approach_height_m: float = Field(default=0.12, ge=0.01, le=0.5)
    """Hover above the contact pose before descending."""
    close_steps: int = Field(default=12, ge=1, le=60, strict=True)
    """Control steps (20 Hz) the gripper closes before anything is lifted."""
    lift_height_m: float = Field(default=0.30, ge=0.02, le=0.6)
    """World height of the end effector above the table while carrying."""
    grasp_height: GraspHeight = GraspHeight()
    release: Release = Release()


class PosePolicy(Record):
    orientation: Orientation = Orientation.TOP_DOWN_PRESERVE_YAW
    approach_axis: Literal["preserve_candidate", "world_-Z"] = "world_-Z"


class CandidateFilter(Record):
    min_downward_alignment: float = Field(default=0.0, ge=0.0, le=1.0)
    """Smallest cosine between approach axis and straight down."""
    avoid_collisions: bool = True
    """Ask the estimator to prefer grasps whose fingers clear the neighbours."""


class AlignmentPolicy(Record):
    target_region: Literal["mask_centroid", "nearest_shallow_surface"] = "mask_centroid"


class Constraints(Record):
    grasp_width_bounds_m: tuple[float, float] = (0.0, 0.08)
    clearance_m: float = Field(default=0.005, ge=0.0, le=0.1)

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        low, high = self.grasp_width_bounds_m
        if not 0 <= low < high <= MAX_GRIPPER_WIDTH_M:
            raise ValueError(
                f"grasp_width_bounds_m must satisfy 0 <= low < high <= {MAX_GRIPPER_WIDTH_M}"
            )
        return self


class Compatibility(Record):
    calibration_ids: tuple[str, ...] = ()


class Activation(Record):
    target_geometry_families: tuple[GeometryFamily, ...] = ()
    """Families this strategy is chosen for; empty means any."""


class ValidatedScope(Record):
    families: tuple[GeometryFamily, ...] = ()
    note: str = ""


def _check_id(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,95}", name):
        raise ValueError("use 1 to 96 of the characters a-z 0-9 _ . -, starting with a-z or 0-9")
    return name


StrategyId = Annotated[str, AfterValidator(_check_id)]


class GraspStrategy(Record):
    """One strategy as it stands in `<strategy_id>.json`."""

    schema_version: Literal["openeta.grasp_strategy.v1"] = SCHEMA_VERSION
    strategy_id: StrategyId
    strategy_family_id: StrategyId
    revision: int = Field(default=1, ge=1, strict=True)
    supersedes: StrategyId | None = None
    status: Status = Status.CANDIDATE
    description: str = ""
    compatibility: Compatibility = Compatibility()
    automatic_activation: Activation = Activation()
    validated_scope: ValidatedScope = ValidatedScope()
    constraints: Constraints = Constraints()
    candidate_filter: CandidateFilter = CandidateFilter()
    alignment_policy: AlignmentPolicy = AlignmentPolicy()
    motion_policy: MotionPolicy = MotionPolicy()
    pose_policy: PosePolicy = PosePolicy()
    provenance: JsonObject = Field(default_factory=dict)
    lifecycle: JsonObject = Field(default_factory=dict)

    @property
    def semantic_digest(self) -> Digest:
        """Identity of what the strategy does: neither status nor lifecycle."""
        return Digest(digest(self.model_dump(mode="json", exclude={"status", "lifecycle"})))


def parse_strategy(text: str | bytes, *, source: str) -> GraspStrategy:
    """Read a strategy file.

    Raises:
        ArtifactError: With one sentence per mistake, naming `source`.
    """
    try:
        return GraspStrategy.model_validate_json(canonical_text(text))
    except ValidationError as error:
        raise ArtifactError(
            [
                f"{source}: {'.'.join(map(str, each['loc'])) or 'file'}: {each['msg']}"
                f" (got {str(each['input'])[:80]})"
                for each in error.errors()
            ]
        ) from error
    except ValueError as error:
        raise ArtifactError(f"{source}: not JSON: {error}") from error


def canonical_text(text: str | bytes) -> bytes:
    """Strict JSON re-encoded, so that NaN and infinity are refused before validation."""
    return json.dumps(parse_json(text)).encode("utf-8")


def render_strategy(strategy: GraspStrategy) -> str:
    """The file text of a strategy."""
    return strategy.model_dump_json(indent=2) + "\n"


def check_revision(new: GraspStrategy, old: GraspStrategy) -> None:
    """A revision keeps its family and counts up by one.

    Raises:
        ArtifactError: Listing every rule it breaks.
    """
    rules = {
        f"strategy_family_id must stay {old.strategy_family_id!r}, is {new.strategy_family_id!r}": (
            new.strategy_family_id == old.strategy_family_id
        ),
        f"revision must be {old.revision + 1}, is {new.revision}": (
            new.revision == old.revision + 1
        ),
        f"supersedes must be {old.strategy_id!r}, is {new.supersedes!r}": (
            new.supersedes == old.strategy_id
        ),
    }
    broken = [f"{new.strategy_id}: {rule}" for rule, held in rules.items() if not held]
    if broken:
        raise ArtifactError(broken)
