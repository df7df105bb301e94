"""Control steps of an environment with nothing around them, in a process of their own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from openeta_exp.embedded.simulator.backend import Backend
from openeta_exp.embedded.simulator.gl import Gl, environment_with
from openeta_exp.embedded.simulator.rendering import OffscreenRenderer
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.worker import build_backend

IMAGE_PIXELS = 256
"""Width and height of a frame where none is asked for."""


@dataclass(frozen=True, slots=True)
class Round:
    """Some control steps and what they took; CPU of every process that took part."""

    steps: int
    wall_s: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        return self.steps / self.wall_s


@contextmanager
def processes(number: int, *, gl: Gl = Gl.NONE) -> Iterator[ProcessPoolExecutor]:
    """Processes that start with the variables of the simulator's own."""
    before = dict(os.environ)
    os.environ.update(environment_with(gl))
    try:
        with ProcessPoolExecutor(
            max_workers=number, mp_context=multiprocessing.get_context("spawn")
        ) as pool:
            yield pool
    finally:
        os.environ.clear()
        os.environ.update(before)


class BareLoop:
    """`backend.step`, now and then a frame as an array, and nothing else."""

    def __init__(self, env_id: str, *, camera: str | None, quality: Quality, gl: Gl) -> None:
        self._stack = ExitStack()
        drawing = Gl.NONE if camera is None else gl
        self._pool = self._stack.enter_context(processes(1, gl=drawing))
        self._pool.submit(_build_once, env_id, camera, quality).result()

    def run(self, steps: int, *, frame_every: int = 0) -> Round:
        """So many control steps; a frame after every so many of them, 0 for none."""
        return self._pool.submit(_step_many, steps, frame_every).result()

    def close(self) -> None:
        self._stack.close()


@dataclass(frozen=True, slots=True)
class _Built:
    backend: Backend
    renderer: OffscreenRenderer | None
    camera: str


_built: list[_Built] = []


def _build_once(env_id: str, camera: str | None, quality: Quality) -> None:
    backend = build_backend(env_id)
    backend.reset(0)
    renderer = None
    if camera is not None:
        renderer = OffscreenRenderer(
            backend.model,
            width=IMAGE_PIXELS,
            height=IMAGE_PIXELS,
            quality=quality,
            geom_groups=backend.geom_groups,
        )
    _built.append(_Built(backend, renderer, "" if camera is None else backend.cameras[camera]))
    _step_many(50, 25)


def _step_many(steps: int, frame_every: int) -> Round:
    """Back and forth in free space."""
    (built,) = _built
    backend = built.backend
    backend.reset(0)
    action = np.array([0.1, 0.2, 0.1, 0.0, 0.0, 0.0, -1.0])
    wall, cpu = time.perf_counter(), time.process_time()
    for index in range(steps):
        backend.step(action if (index // 20) % 2 == 0 else -action)
        if built.renderer is not None and frame_every and (index + 1) % frame_every == 0:
            built.renderer.frame(backend.data, built.camera)
    return Round(steps, time.perf_counter() - wall, time.process_time() - cpu)
