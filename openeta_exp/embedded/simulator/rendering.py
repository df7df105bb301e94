"""Off-screen colour, depth and segmentation of a MuJoCo scene on whatever GL the process has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from openeta_exp.embedded.simulator.rendering_quality import Quality


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One camera's view.

    Attributes:
        rgb: `[H, W, 3]` uint8, row 0 at the top.
        depth_m: `[H, W]` float32, metres along the optical axis.
    """

    rgb: NDArray[np.uint8]
    depth_m: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """What each pixel shows.

    Attributes:
        geom_ids: `[H, W]` int32, -1 where there is no geom; row 0 at the top.
        depth_m: `[H, W]` float32, metres along the optical axis.
    """

    geom_ids: NDArray[np.int32]
    depth_m: NDArray[np.float32]


class OffscreenRenderer:
    """Draws one model at one image size.

    Belongs to the thread that built it: a GL context used from another thread draws black
    frames without an error. It is made current before every draw, because a second context
    in the process would otherwise receive the drawing.

    Raises:
        RuntimeError: If no GL context can be created.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        width: int,
        height: int,
        quality: Quality,
        geom_groups: Iterable[int],
    ) -> None:
        from mujoco.rendering.classic import gl_context

        if not hasattr(gl_context, "GLContext"):
            raise RuntimeError("this process was started without a GL platform")
        self._model = model
        self._viewport = mujoco.MjrRect(0, 0, width, height)
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        self._scene = mujoco.MjvScene(model, maxgeom=2000)
        if quality is Quality.FAST:
            self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
            self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = 0
        for group in geom_groups:
            self._option.geomgroup[group] = 1
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._gl = gl_context.GLContext(width, height)
        self._gl.make_current()
        self._context = _context(model, quality)
        # Reversed depth keeps millimetres exact at the far end of a scene.
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)

    def frame(self, data: mujoco.MjData, camera: str) -> Frame:
        """Colour and depth from one drawing of the scene."""
        self._draw(data, camera, self._option)
        rgb, z = self._read()
        return Frame(rgb=np.flipud(rgb), depth_m=np.flipud(self._metres(z)))

    def segments(self, data: mujoco.MjData, camera: str) -> Segments:
        """Geoms and depth from one drawing of the scene, half the price of a picture."""
        option = mujoco.MjvOption()
        option.geomgroup[:] = self._option.geomgroup
        # Sites are markers, not things; a segmentation would draw even transparent ones.
        option.sitegroup[:] = 0
        flags = self._scene.flags.copy()
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = 1
        self._scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = 1
        self._draw(data, camera, option)
        self._scene.flags[:] = flags
        packed, z = self._read()
        wide = packed.astype(np.uint32)
        segments = np.flipud(wide[..., 0] + (wide[..., 1] << 8) + (wide[..., 2] << 16))
        table = np.full(self._scene.ngeom + 1, -1, dtype=np.int32)
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.segid != -1 and geom.objtype == int(mujoco.mjtObj.mjOBJ_GEOM):
                table[geom.segid + 1] = geom.objid
        return Segments(
            geom_ids=table[np.where(segments < table.size, segments, 0)],
            depth_m=np.flipud(self._metres(z)),
        )

    def close(self) -> None:
        """Free the context; further calls are errors."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()

    def _draw(self, data: mujoco.MjData, camera: str, option: mujoco.MjvOption) -> None:
        self._camera.fixedcamid = self._model.camera(camera).id
        self._gl.make_current()
        mujoco.mjv_updateScene(
            self._model,
            data,
            option,
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        mujoco.mjr_render(self._viewport, self._scene, self._context)

    def _read(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """`[H, W, 3]` colours and `[H, W]` depth buffer, row 0 at the bottom."""
        height, width = self._viewport.height, self._viewport.width
        colours = np.empty((height, width, 3), dtype=np.uint8)
        z = np.empty((height, width), dtype=np.float32)
        mujoco.mjr_readPixels(colours, z, self._viewport, self._context)
        return colours, z

    def _metres(self, z: NDArray[np.float32]) -> NDArray[np.float32]:
        """Undo the perspective projection of a reversed depth buffer: 1 is near, 0 is far."""
        near, far = clip_planes_m(self._model)
        metres = near * far / (near + z.astype(np.float64) * (far - near))
        return metres.astype(np.float32)


def _context(model: mujoco.MjModel, quality: Quality) -> mujoco.MjrContext:
    """A rendering context; the model only lends its quality settings while it is made."""
    shipped = model.vis.quality.offsamples, model.vis.quality.shadowsize
    if quality is Quality.FAST:
        model.vis.quality.offsamples = model.vis.quality.shadowsize = 0
    try:
        return mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
    finally:
        model.vis.quality.offsamples, model.vis.quality.shadowsize = shipped


def clip_planes_m(model: mujoco.MjModel) -> tuple[float, float]:
    """Distances of the near and far plane along the optical axis."""
    extent = float(model.stat.extent)
    return float(model.vis.map.znear) * extent, float(model.vis.map.zfar) * extent
