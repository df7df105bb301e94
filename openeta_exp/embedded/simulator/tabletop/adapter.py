"""The tabletop scene as a backend: one task's instruction, target and checker on top of it."""

from __future__ import annotations

import mujoco

from openeta_exp.embedded.simulator.backend import (
    ActionScale,
    Array,
    HandPose,
    InitialState,
    Instance,
    Joints,
)
from openeta_exp.embedded.simulator.tabletop.scene import (
    METRES_PER_UNIT,
    RADIANS_PER_UNIT,
    SUBSTEPS,
    TabletopScene,
)
from openeta_exp.embedded.simulator.tabletop.tasks import Goal, TabletopTask

SCENE_REVISION = "1"
"""Changes whenever geometry, physics or placement change, because outcomes then do too."""


class TabletopBackend:
    """See `Backend`. The seed draws the placements; there is no list of initial states."""

    name = "tabletop"
    version = SCENE_REVISION
    robot = "gantry"
    scale = ActionScale(metres=METRES_PER_UNIT, radians=RADIANS_PER_UNIT, control_hz=20.0, gain=0.7)
    geom_groups = frozenset({0})

    def __init__(self, task: TabletopTask, scene: TabletopScene | None = None) -> None:
        self.scene = scene or TabletopScene()
        self.task = task.instruction
        self.cameras = {"agentview": "agentview", "wrist": "wrist"}
        self._task = task
        body = self.scene.model.body
        self.hand_bodies = frozenset({body("gantry").id, body("hand").id})
        robot_parts = ("gantry", "hand", "left_finger", "right_finger")
        self.instances = (
            *(
                Instance(name, name.rsplit("_", 1)[0], frozenset({body(name).id}), movable=True)
                for name in self.scene.object_names
            ),
            Instance("basket_1", "basket", frozenset({body("basket_1").id}), movable=False),
            Instance("shelf_1", "shelf", frozenset({body("shelf_1").id}), movable=False),
            Instance("table", "table", frozenset({body("table").id}), movable=False),
            Instance(
                "robot", "robot", frozenset(body(part).id for part in robot_parts), movable=False
            ),
        )

    @property
    def model(self) -> mujoco.MjModel:
        return self.scene.model

    @property
    def data(self) -> mujoco.MjData:
        return self.scene.data

    def reset(self, seed: int) -> InitialState:
        self.scene.scatter(seed, target=self._task.target)
        mujoco.mj_step(self.model, self.data, nstep=2 * SUBSTEPS)
        return InitialState(seed=seed, init_state_index=None)

    def step(self, action: Array) -> None:
        self.scene.step(action)

    def succeeded(self) -> bool:
        match self._task.goal:
            case Goal.IN_BASKET:
                return self.scene.in_basket(self._task.target)
            case Goal.ON_SHELF:
                return self.scene.on_shelf(self._task.target)

    def hand_pose(self) -> HandPose:
        return self.scene.hand_pose()

    def openness(self) -> float:
        return self.scene.openness()

    def joints(self) -> Joints:
        return self.scene.joints()

    def close(self) -> None:
        """Nothing to free."""
