"""Which GL platform really works here, found by drawing with it in a process of its own."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path

import anyio

_PACKAGE_ROOT = Path(__file__).resolve().parents[3]


class Gl(StrEnum):
    """A value of `MUJOCO_GL`, or none at all."""

    EGL = "egl"
    OSMESA = "osmesa"
    NONE = "none"


async def working_gl(candidates: tuple[Gl, ...] = (Gl.EGL, Gl.OSMESA)) -> Gl:
    """The first candidate that draws a picture; `NONE` if no candidate does."""
    for candidate in candidates:
        result = await anyio.run_process(
            [sys.executable, "-m", "openeta_exp.embedded.simulator.gl"],
            env=environment_with(candidate),
            check=False,
        )
        if result.returncode == 0:
            return candidate
    return Gl.NONE


def environment_with(gl: Gl) -> dict[str, str]:
    """The environment variables a simulator process is started with."""
    variables = dict(os.environ)
    variables.pop("PYOPENGL_PLATFORM", None)
    # The same package as ours, installed or not, wherever the process is started.
    variables["PYTHONPATH"] = os.pathsep.join(
        [str(_PACKAGE_ROOT), *filter(None, [variables.get("PYTHONPATH")])]
    )
    # Small matrices everywhere: a thread pool per process only fights over the cores.
    variables.update(
        OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1"
    )
    variables["MUJOCO_GL"] = "disable" if gl is Gl.NONE else gl.value
    return variables


def _draw() -> bool:
    """Whether a red sphere looks red."""
    import mujoco

    from openeta_exp.embedded.simulator.rendering import OffscreenRenderer
    from openeta_exp.embedded.simulator.rendering_quality import Quality

    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><light pos="0 0 2"/><camera name="eye" pos="0 0 1"/>'
        '<geom type="sphere" size="0.2" rgba="1 0 0 1"/></worldbody></mujoco>'
    )
    state = mujoco.MjData(model)
    mujoco.mj_forward(model, state)
    renderer = OffscreenRenderer(
        model, width=32, height=32, quality=Quality.FAST, geom_groups=range(3)
    )
    red, green, _ = (int(level) for level in renderer.frame(state, "eye").rgb[16, 16])
    renderer.close()
    return red > 40 and green < red // 2


if __name__ == "__main__":
    drawn = _draw()
    # The drivers' exit handlers are noisy and have been seen to fail; the answer is known.
    os._exit(0 if drawn else 1)
