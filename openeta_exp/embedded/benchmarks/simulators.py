"""One adapter for the tabletop and for LIBERO: the scenes of the MCP server, stepped directly.

Importing this module needs `vla_eval`, installed or stood in for, as every adapter does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from vla_eval.benchmarks.base import StepBenchmark, StepResult

from openeta_exp.embedded.simulator.env_ids import LiberoId, TabletopId, parse_env_id

if TYPE_CHECKING:
    from openeta_exp.embedded.simulator.backend import Backend
    from openeta_exp.embedded.simulator.rendering import OffscreenRenderer

SETTLE_STEPS = 5
"""As the MCP server does: the same seed then starts from the same state for every kind of arm."""

Task = dict[str, object]
Observation = dict[str, object]


class SimulatorBenchmark(StepBenchmark):  # type: ignore[misc]
    """Tasks of one suite, or the one task of an env id.

    Scenario parameter: `seed`, which selects the initial state. Action: `[7]` dx, dy, dz, droll,
    dpitch, dyaw in [-1, 1], then the gripper: -1 opens, +1 closes, 0 keeps. Observation:
    `images` (camera to `[H, W, 3]` uint8), `states` `[7]` float32 (x, y, z in metres, rotation
    vector in radians, openness), `task_description`, and with `privileged` also `objects`
    (name to `[3]` float32, metres).

    Args:
        suite: `tabletop`, or a suite of LIBERO such as `libero_object`.
        env_id: Instead of a suite, one environment, such as
            `openeta/tabletop_pick_can_basket-v0`.
        instruction: What the one environment's task is called; its own words if absent.
        cameras: `agentview`, `wrist`; none needs no GL.
        image_size: Pixels, square.
        fast: Draw without multisampling, shadows and reflections.
    """

    render_backends = frozenset({"gpu", "cpu"})

    @classmethod
    def configure_render(cls, mode: str) -> dict[str, str]:
        return {"MUJOCO_GL": "egl" if mode == "gpu" else "osmesa"}

    def __init__(
        self,
        suite: str = "tabletop",
        *,
        env_id: str | None = None,
        instruction: str | None = None,
        cameras: Sequence[str] = ("agentview",),
        image_size: int = 128,
        fast: bool = True,
        privileged: bool = False,
    ) -> None:
        super().__init__()
        # The platform is bound when MuJoCo is first imported, which reset does.
        os.environ.setdefault("MUJOCO_GL", "egl" if cameras else "disable")
        self._suite = suite
        self._env_id = env_id
        self._instruction = instruction
        self._cameras = tuple(cameras)
        self._image_size = image_size
        self._fast = fast
        self._privileged = privileged
        self._backend: Backend | None = None
        self._built: str | None = None
        self._renderer: OffscreenRenderer | None = None
        self._force_ranges: NDArray[np.float64] | None = None

    def get_tasks(self) -> list[Task]:
        if self._env_id is not None:
            name = self._instruction or _words(self._env_id)
            return [{"name": name, "env_id": self._env_id}]
        return [
            {"name": words, "suite": self._suite, "task_id": number, "env_id": env_id}
            for number, (env_id, words) in enumerate(_listed(self._suite))
        ]

    def reset(self, task: Task) -> Observation:
        seed = task["seed"]
        assert isinstance(seed, int)
        backend = self._opened(str(task["env_id"]))
        if self._force_ranges is not None:
            backend.model.actuator_forcerange[:] = self._force_ranges
        backend.data.xfrc_applied[:] = 0.0
        backend.reset(seed)
        for _ in range(SETTLE_STEPS):
            backend.step(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]))
        return self._raw(backend)

    def make_obs(self, raw_obs: Observation, task: Task) -> Observation:
        return {**raw_obs, "task_description": task["name"]}

    def step(self, action: Mapping[str, Any]) -> StepResult:
        backend = self._running()
        backend.step(np.asarray(action["actions"], dtype=np.float64))
        success = backend.succeeded()
        hand_z_m = float(backend.hand_pose().xyz[2])
        self._recorder.record_step(reward=float(success), hand_z_m=hand_z_m)
        raw = self._raw(backend)
        return StepResult(raw, float(success), success, {"success": success, "hand_z_m": hand_z_m})

    def get_step_result(self, step_result: StepResult) -> dict[str, object]:
        return {
            "success": bool(step_result.info.get("success", self._running().succeeded())),
            "simulated_s": float(self._running().data.time),
        }

    def cleanup(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
        if self._backend is not None:
            self._backend.close()
            self._backend = self._built = None

    def get_actuator_limit(self, name: str) -> float | None:
        """Newtons or newton metres; None if the actuator has no limit."""
        actuator = self._running().model.actuator(name)
        return float(actuator.forcerange[1]) if actuator.forcelimited else None

    def scale_actuator(self, name: str, factor: float) -> None:
        self._running().model.actuator(name).forcerange[:] *= factor

    def get_body_pose(self, name: str) -> list[float]:
        """x, y, z in metres, then the quaternion wxyz, of a free body."""
        return [float(each) for each in self._free_joint(name).qpos]

    def set_body_pose(self, name: str, pose: Sequence[float]) -> None:
        joint = self._free_joint(name)
        joint.qpos[:] = pose
        joint.qvel[:] = 0.0

    def apply_force(self, name: str, wrench: Sequence[float]) -> None:
        """Force in newtons, torque in newton metres, world frame, from now on."""
        self._running().data.body(name).xfrc_applied[:] = wrench

    def get_applied_wrench(self, name: str) -> list[float]:
        return [float(each) for each in self._running().data.body(name).xfrc_applied]

    def alternative(self, kind: str, name: str) -> object:
        """`instruction` is replaced by the given words."""
        if kind != "instruction":
            raise ValueError(f"there is no alternative {kind}; instruction is the only kind")
        return name

    def _free_joint(self, body: str) -> Any:
        """The joint that lets a body move freely, whatever the model calls it."""
        backend = self._running()
        first = int(backend.model.body(body).jntadr[0])
        if first < 0 or backend.model.jnt_type[first] != 0:
            raise ValueError(f"{body} cannot move freely")
        return backend.data.joint(first)

    def _running(self) -> Backend:
        assert self._backend is not None
        return self._backend

    def _opened(self, env_id: str) -> Backend:
        if self._backend is not None and self._built == env_id:
            return self._backend
        self.cleanup()
        self._backend, self._built = _build(env_id), env_id
        self._force_ranges = self._backend.model.actuator_forcerange.copy()
        return self._backend

    def _raw(self, backend: Backend) -> Observation:
        pose = backend.hand_pose()
        raw: Observation = {
            "images": {name: self._picture(backend, name) for name in self._cameras},
            "states": np.array(
                [*pose.xyz, *_rotation_vector(pose.quat_wxyz), backend.openness()],
                dtype=np.float32,
            ),
        }
        if self._privileged:
            raw["objects"] = {
                each.name: backend.data.xpos[min(each.body_ids)].astype(np.float32)
                for each in backend.instances
                if each.category != "robot"
            }
        return raw

    def _picture(self, backend: Backend, camera: str) -> NDArray[np.uint8]:
        if self._renderer is None:
            from openeta_exp.embedded.simulator.rendering import OffscreenRenderer
            from openeta_exp.embedded.simulator.rendering_quality import Quality

            self._renderer = OffscreenRenderer(
                backend.model,
                width=self._image_size,
                height=self._image_size,
                quality=Quality.FAST if self._fast else Quality.BENCHMARK,
                geom_groups=backend.geom_groups,
            )
        frame = self._renderer.frame(backend.data, backend.cameras[camera])
        return np.ascontiguousarray(frame.rgb)


def _listed(suite: str) -> list[tuple[str, str]]:
    """Env id and instruction of every task of a suite, in order."""
    if suite == "tabletop":
        from openeta_exp.embedded.simulator.tabletop.tasks import TASKS

        return [(str(TabletopId(slug)), task.instruction) for slug, task in TASKS.items()]
    from openeta_exp.embedded.simulator.libero_suites import libero_tasks

    return [
        (str(LiberoId(task.suite, task.task_index)), task.instruction)
        for task in libero_tasks()
        if task.suite == suite
    ]


def _words(env_id: str) -> str:
    parsed = parse_env_id(env_id)
    suite = parsed.suite if isinstance(parsed, LiberoId) else "tabletop"
    return dict(_listed(suite))[env_id]


def _build(env_id: str) -> Backend:
    parsed = parse_env_id(env_id)
    if isinstance(parsed, TabletopId):
        from openeta_exp.embedded.simulator.tabletop.adapter import TabletopBackend
        from openeta_exp.embedded.simulator.tabletop.tasks import TASKS

        return TabletopBackend(TASKS[parsed.slug])
    from openeta_exp.embedded.simulator.libero_backend import LiberoBackend

    return LiberoBackend(parsed)


def _rotation_vector(quat_wxyz: NDArray[np.float64]) -> NDArray[np.float64]:
    import mujoco

    vector = np.empty(3)
    mujoco.mju_quat2Vel(vector, quat_wxyz, 1.0)
    return vector
