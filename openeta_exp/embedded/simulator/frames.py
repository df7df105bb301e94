"""What the simulator knows about a frame it rendered, for the perception that stands next to it.

`GET /frames/{sha256}` answers with the npz of `FrameTruth.to_npz`: a zip of arrays with
`segmentation` `[H, W]` int32, `depth_m` `[H, W]` float32, `intrinsics` `[3, 3]`,
`world_from_camera` `[4, 4]` (OpenCV axes) and `instances`, the UTF-8 bytes of a JSON list of
`{"instance_id", "name", "category", "label", "kind"}`. No pickle is involved.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from openeta_exp.domain.record import Record


class FrameInstance(Record):
    """One thing visible in principle; its pixels may be none."""

    instance_id: int
    """Value in the segmentation; 0 is background and names nothing."""
    name: str
    """Unique, such as `alphabet_soup_1`, `robot` or `table`."""
    category: str
    """Such as `alphabet_soup`."""
    label: str
    """Words a person would use, such as `alphabet soup`."""
    kind: Literal["object", "fixture", "robot", "surroundings"]


_ZIP = b"PK\x03\x04"
_INSTANCES: TypeAdapter[tuple[FrameInstance, ...]] = TypeAdapter(tuple[FrameInstance, ...])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameTruth:
    """Ground truth of one rendered frame.

    Attributes:
        segmentation: `[H, W]` int32 instance ids, row 0 at the top.
        depth_m: `[H, W]` float32, metres along the optical axis.
        intrinsics: `[3, 3]` float64 pinhole matrix in pixels.
        world_from_camera: `[4, 4]` float64, OpenCV axes (x right, y down, z forward).
    """

    segmentation: NDArray[np.int32]
    depth_m: NDArray[np.float32]
    intrinsics: NDArray[np.float64]
    world_from_camera: NDArray[np.float64]
    instances: tuple[FrameInstance, ...]

    def to_npz(self) -> bytes:
        buffer = io.BytesIO()
        np.savez(
            buffer,
            segmentation=self.segmentation,
            depth_m=self.depth_m,
            intrinsics=self.intrinsics,
            world_from_camera=self.world_from_camera,
            instances=np.frombuffer(_INSTANCES.dump_json(self.instances), dtype=np.uint8),
        )
        return buffer.getvalue()

    @classmethod
    def from_npz(cls, content: bytes) -> FrameTruth:
        """Raises: ValueError: If the bytes are no such archive."""
        if not content.startswith(_ZIP):
            raise ValueError("not a frame archive: no zip")
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return cls(
                    segmentation=arrays["segmentation"],
                    depth_m=arrays["depth_m"],
                    intrinsics=arrays["intrinsics"],
                    world_from_camera=arrays["world_from_camera"],
                    instances=_INSTANCES.validate_json(arrays["instances"].tobytes()),
                )
        except (KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"not a frame archive: {error}") from error


class FrameSource(Protocol):
    """Whoever can tell what a frame shows, given the frame's own bytes as the key."""

    async def frame_truth(self, digest: str) -> FrameTruth | None:
        """Truth of the frame whose RGB PNG bytes have this SHA-256; None if it is not ours.

        Raises:
            SimulatorError: The process that rendered it did not answer.
        """
        ...
