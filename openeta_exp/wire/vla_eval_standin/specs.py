"""Declared conventions of one part of an action or observation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class DimSpec:
    """One part: its length (0 for what is no vector) and the name of its convention."""

    name: str
    dims: int
    format: str
    range: tuple[float, float] | None = None
    accepts: frozenset[str] | None = None
    description: str = ""

    def validate(self, value: Any) -> list[str]:
        """What is wrong with a value, one sentence each."""
        flat = np.asarray(value, dtype=np.float64).ravel()
        if not self.dims:
            return []
        if flat.size < self.dims:
            return [f"{self.name}: has {flat.size} numbers, needs {self.dims}"]
        part = flat[: self.dims]
        if not np.isfinite(part).all():
            return [f"{self.name}: is not finite"]
        if self.range and (part.min() < self.range[0] - 0.01 or part.max() > self.range[1] + 0.01):
            return [f"{self.name}: leaves {list(self.range)}"]
        return []

    def to_dict(self) -> dict[str, Any]:
        fields = {key: value for key, value in asdict(self).items() if value not in (None, "")}
        if self.accepts is not None:
            fields["accepts"] = sorted(self.accepts)
        if self.range is not None:
            fields["range"] = list(self.range)
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> DimSpec:
        accepts, limits = fields.get("accepts"), fields.get("range")
        return cls(
            name=fields["name"],
            dims=fields["dims"],
            format=fields["format"],
            range=None if limits is None else (limits[0], limits[1]),
            accepts=None if accepts is None else frozenset(accepts),
            description=fields.get("description", ""),
        )

    def is_compatible(self, other: DimSpec) -> tuple[bool, str]:
        """Whether `other`, the consumer, can use what this producer makes, and why not."""
        if other.accepts is not None:
            fits = self.format in other.accepts
            return fits, "" if fits else f"{self.name}: {self.format} is not accepted"
        if self.format != other.format:
            return False, f"{self.name}: {self.format} is not {other.format}"
        if self.dims and other.dims and self.dims != other.dims:
            return False, f"{self.name}: {self.dims} numbers instead of {other.dims}"
        return True, ""


POSITION_DELTA = DimSpec("position", 3, "delta_xyz", (-1, 1))
POSITION_ABSOLUTE = DimSpec("position", 3, "absolute_xyz")
ROTATION_EULER = DimSpec("rotation", 3, "euler_xyz", (-3.15, 3.15))
ROTATION_AA = DimSpec("rotation", 3, "axis_angle", (-3.15, 3.15))
ROTATION_QUAT = DimSpec("rotation", 4, "quaternion_xyzw", (-1, 1))
ROTATION_ROT6D_INTERLEAVED = DimSpec("rotation", 6, "rot6d_interleaved")
ROTATION_EULER_ACCEPTS_AA = DimSpec(
    "rotation", 3, "euler_xyz", (-3.15, 3.15), frozenset({"euler_xyz", "axis_angle"})
)
GRIPPER_CLOSE_POS = DimSpec("gripper", 1, "binary_close_positive", (-1, 1))
GRIPPER_CLOSE_NEG = DimSpec("gripper", 1, "binary_close_negative", (-1, 1))
GRIPPER_01 = DimSpec("gripper", 1, "continuous_01", (0, 1))
GRIPPER_CLOSE_01 = DimSpec("gripper", 1, "binary_close_01", (0, 1))
GRIPPER_RAW = DimSpec("gripper", 1, "raw")
IMAGE_RGB = DimSpec("image", 0, "rgb_hwc_uint8")
STATE_EEF_POS_QUAT_GRIP = DimSpec("state", 8, "eef_pos3_quat4_gripper1")
STATE_EEF_POS_AA_GRIP = DimSpec("state", 8, "eef_pos3_axisangle3_gripper2")
STATE_EEF_POS_EULER_GRIP = DimSpec("state", 8, "eef_pos3_euler3_gripper2")
STATE_JOINT = DimSpec("state", 0, "joint_positions")
LANGUAGE = DimSpec("language", 0, "language")
RAW = DimSpec("raw", 0, "raw")
