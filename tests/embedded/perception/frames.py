"""Frames of ray-traced scenes as a simulator would know them, and the arguments that name them."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from openeta_exp.domain.geometry import Mask
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import CameraFrame
from openeta_exp.embedded.simulator.frames import FrameInstance, FrameTruth
from openeta_exp.wire.base64_text import encode_base64
from openeta_exp.wire.images import encode_mask, encode_png
from tests.depth_scenes import INTRINSICS, SIZE_PX, Scene, Solid, draw

SOUP = Solid(x_m=-0.05, y_m=-0.1, width_m=0.066, length_m=0.066, height_m=0.08, round=True)
BUTTER = Solid(x_m=0.05, y_m=0.03, width_m=0.077, length_m=0.04, height_m=0.018)
SAUCE = Solid(x_m=-0.12, y_m=0.12, width_m=0.064, length_m=0.064, height_m=0.076, round=True)
NAMED = {"alphabet_soup_1": SOUP, "butter_1": BUTTER, "tomato_sauce_1": SAUCE}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shot:
    """One frame as a client holds it and as its simulator remembers it."""

    scene: Scene
    truth: FrameTruth
    rgb_png: bytes
    depth_png: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.rgb_png).hexdigest()

    @property
    def frame(self) -> CameraFrame:
        return CameraFrame(
            frame_id="agentview",
            width=SIZE_PX,
            height=SIZE_PX,
            rgb_png=self.rgb_png,
            depth_png=self.depth_png,
            intrinsics=INTRINSICS,
            world_from_camera=self.scene.world_from_camera,
        )

    def mask(self, name: str) -> Mask:
        label = next(i.instance_id for i in self.truth.instances if i.name == name)
        return self.scene.mask(label)

    def grasp_arguments(self, mask: Mask | None) -> JsonObject:
        """`detect_grasps` on a mask, or on the scene."""
        arguments: JsonObject = {
            "rgb": {"format": "png", "base64": encode_base64(self.rgb_png)},
            "depth": {"format": "png", "base64": encode_base64(self.depth_png)},
            "intrinsics": {
                "fx": INTRINSICS.fx,
                "fy": INTRINSICS.fy,
                "cx": INTRINSICS.cx,
                "cy": INTRINSICS.cy,
                "scale": 1000.0,
            },
            "mode": "scene",
        }
        if mask is not None:
            arguments |= {
                "mode": "targeted",
                "target_mask": {"format": "png", "base64": encode_base64(encode_mask(mask))},
            }
        return arguments


@dataclass(slots=True)
class KnownFrames:
    """See `FrameSource`; counts how often it was asked."""

    shots: tuple[Shot, ...]
    asked: list[str] = field(default_factory=list)

    async def frame_truth(self, digest: str) -> FrameTruth | None:
        self.asked.append(digest)
        return next((shot.truth for shot in self.shots if shot.digest == digest), None)


def take(named: dict[str, Solid] | None = None) -> Shot:
    """A shot of solids; their categories are their names without the number."""
    named = NAMED if named is None else named
    scene = draw(*named.values())
    instances = [
        FrameInstance(
            instance_id=label,
            name=name,
            category=name.rsplit("_", 1)[0],
            label=name.rsplit("_", 1)[0].replace("_", " "),
            kind="object",
        )
        for label, name in enumerate(named, start=1)
    ]
    shades = np.array(
        [[90, 80, 70], *([40 * i % 256, 200 - 30 * i, 60 + 20 * i] for i in range(9))]
    )
    rgb = shades[scene.labels].astype(np.uint8)
    depth = io.BytesIO()
    Image.fromarray(np.round(scene.depth_m * 1000).astype(np.uint16)).save(depth, format="PNG")
    k = INTRINSICS
    return Shot(
        scene=scene,
        truth=FrameTruth(
            segmentation=scene.labels,
            depth_m=scene.depth_m,
            intrinsics=np.array([[k.fx, 0, k.cx], [0, k.fy, k.cy], [0, 0, 1]]),
            world_from_camera=np.asarray(scene.world_from_camera),
            instances=tuple(instances),
        ),
        rgb_png=encode_png(rgb),
        depth_png=depth.getvalue(),
    )
