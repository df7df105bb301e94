"""Remembers the state behind recent frames, so that their truth can be drawn when asked for."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import mujoco
import numpy as np

from openeta_exp.embedded.simulator.backend import Array, Backend, Instance
from openeta_exp.embedded.simulator.frames import FrameInstance, FrameTruth
from openeta_exp.embedded.simulator.observing import extrinsics, intrinsics
from openeta_exp.embedded.simulator.rendering import OffscreenRenderer

_CAPACITY = 64
_SURROUNDINGS = ("table", "floor", "wall")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    camera: str
    qpos: Array


class FrameMemory:
    """Digest to state of the last 64 frames of the present episode.

    Truth is drawn from a scratch `MjData`, so asking never disturbs the running episode.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._snapshots: OrderedDict[str, _Snapshot] = OrderedDict()
        self._scratch: mujoco.MjData | None = None
        self._instances = tuple(
            describe(instance, number) for number, instance in enumerate(backend.instances, start=1)
        )

    def forget(self) -> None:
        """A reset moves fixtures that are not part of qpos, so older frames cannot be redrawn."""
        self._snapshots.clear()

    def remember(self, digest: str, camera: str) -> None:
        self._snapshots[digest] = _Snapshot(camera, self._backend.data.qpos.copy())
        self._snapshots.move_to_end(digest)
        while len(self._snapshots) > _CAPACITY:
            self._snapshots.popitem(last=False)

    def truth(self, digest: str, renderer: OffscreenRenderer) -> FrameTruth | None:
        """None if the frame is not remembered. `renderer` is the one that drew it."""
        snapshot = self._snapshots.get(digest)
        if snapshot is None:
            return None
        model = self._backend.model
        self._scratch = self._scratch or mujoco.MjData(model)
        self._scratch.qpos[:] = snapshot.qpos
        mujoco.mj_kinematics(model, self._scratch)
        mujoco.mj_camlight(model, self._scratch)
        camera = self._backend.cameras[snapshot.camera]
        segments = renderer.segments(self._scratch, camera)
        height, width = segments.geom_ids.shape
        pinhole = intrinsics(self._backend, snapshot.camera, width=width, height=height)
        pose = extrinsics(self._backend, snapshot.camera, self._scratch)
        world_from_camera = np.eye(4)
        world_from_camera[:3, :3] = np.reshape(pose.mat, (3, 3)) @ np.diag([1.0, -1.0, -1.0])
        world_from_camera[:3, 3] = pose.pos
        return FrameTruth(
            segmentation=self._ids_by_geom()[segments.geom_ids],
            depth_m=segments.depth_m,
            intrinsics=np.array(
                [[pinhole.fx, 0, pinhole.cx], [0, pinhole.fy, pinhole.cy], [0, 0, 1]], dtype=float
            ),
            world_from_camera=world_from_camera,
            instances=self._instances,
        )

    def _ids_by_geom(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """`[ngeom + 1]`; the last entry, reached by geom -1, is background."""
        model = self._backend.model
        owner = np.zeros(model.nbody, dtype=np.int32)
        for number, instance in enumerate(self._backend.instances, start=1):
            owner[list(instance.body_ids)] = number
        return np.append(owner[model.geom_bodyid], 0).astype(np.int32)


def describe(instance: Instance, number: int) -> FrameInstance:
    if instance.category == "robot":
        kind = "robot"
    elif instance.category in _SURROUNDINGS:
        kind = "surroundings"
    else:
        kind = "object" if instance.movable else "fixture"
    return FrameInstance(
        instance_id=number,
        name=instance.name,
        category=instance.category,
        label=instance.category.replace("_", " "),
        kind=kind,
    )
