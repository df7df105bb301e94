"""Episodes of one environment in this very process: motions, rewards, observations."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from openeta_exp.embedded.simulator.arguments import (
    FollowEefTrajectory,
    MoveTo,
    StepEnv,
    Waypoint,
)
from openeta_exp.embedded.simulator.backend import EnvironmentFault, InitialState
from openeta_exp.embedded.simulator.collisions import CollisionWatch
from openeta_exp.embedded.simulator.environment import Environment
from openeta_exp.embedded.simulator.observing import View
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.tabletop.adapter import TabletopBackend
from openeta_exp.embedded.simulator.tabletop.mjcf import (
    BASKET_CENTER,
    SHELF_CENTER,
    SHELF_TOP,
)
from openeta_exp.embedded.simulator.tabletop.scene import TabletopScene
from openeta_exp.embedded.simulator.tabletop.tasks import TASKS

BLIND = View(
    width=64, height=64, cameras=(), depth=False, include_objects=True, quality=Quality.FAST
)
ABOVE = {"handle": "h", "x": 0.0, "y": 0.05, "z": 0.25}


class WonAtReset(TabletopBackend):
    """The can already stands in the basket."""

    def reset(self, seed: int) -> InitialState:
        initial = super().reset(seed)
        self.scene.place("can_1", *BASKET_CENTER)
        return initial


@pytest.fixture
def scene() -> TabletopScene:
    return TabletopScene()


@pytest.fixture
def environment(scene: TabletopScene) -> Environment:
    return blind(TabletopBackend(TASKS["pick_can_basket"], scene))


def blind(backend: TabletopBackend) -> Environment:
    environment = Environment(backend, env_id="openeta/tabletop_pick_can_basket-v0", gl="none")
    environment.open(BLIND)
    environment.reset(1)
    return environment


def test_a_motion_reaches_position_and_orientation(environment: Environment) -> None:
    moved = environment.move_to(MoveTo(**ABOVE, roll=180, pitch=0, yaw=60))

    assert moved.reached_target
    assert moved.stop_reason == "reached"
    assert np.allclose(moved.end.xyz, (0.0, 0.05, 0.25), atol=0.002)
    assert moved.orientation_error_rad is not None
    assert moved.orientation_error_rad < 0.05
    assert moved.observation.robot.end_effector_pose == moved.end
    assert moved.observation.metadata.sim_step == moved.steps_executed


def test_a_tilted_hand_is_reached_as_well(environment: Environment) -> None:
    assert environment.move_to(MoveTo(**ABOVE, roll=160, pitch=20, yaw=-40)).reached_target


def test_a_motion_without_orientation_keeps_the_hand_as_it_is(environment: Environment) -> None:
    environment.move_to(MoveTo(**ABOVE, roll=180, pitch=0, yaw=60))

    moved = environment.move_to(MoveTo(handle="h", x=0.1, y=-0.1, z=0.2))

    assert moved.reached_target
    assert np.allclose(moved.end.quat_xyzw, moved.start.quat_xyzw, atol=0.01)


def test_a_budget_that_is_too_small_is_a_miss_that_says_so(environment: Environment) -> None:
    moved = environment.move_to(MoveTo(**ABOVE, num_steps=2))

    assert (moved.stop_reason, moved.steps_executed) == ("budget", 2)
    assert not moved.reached_target
    assert moved.position_error_m > 0.002


def test_a_blocked_motion_stops_early_as_stalled(environment: Environment) -> None:
    moved = environment.move_to(
        MoveTo(handle="h", x=0.3, y=0.0, z=-0.3, num_steps=500, enable_collision_check=False)
    )

    assert moved.stop_reason == "stalled"
    assert moved.steps_executed < 150
    assert not moved.reached_target


def test_a_hand_inside_something_is_a_collision_and_fingers_on_something_are_not(
    scene: TabletopScene,
) -> None:
    backend = TabletopBackend(TASKS["pick_can_basket"], scene)
    robot = next(i.body_ids for i in backend.instances if i.category == "robot")
    watch = CollisionWatch(scene.model, watched=backend.hand_bodies, robot=robot)
    scene.restart()
    assert not watch.check(scene.data).detected

    # Finger tips 5 mm inside the shelf's board.
    scene.data.qpos[:3] = (*SHELF_CENTER, SHELF_TOP + 0.004)
    mujoco.mj_forward(scene.model, scene.data)
    assert scene.data.ncon > 0
    assert not watch.check(scene.data).detected

    scene.data.qpos[:3] = (*SHELF_CENTER, SHELF_TOP - 0.04)
    mujoco.mj_forward(scene.model, scene.data)
    hit = watch.check(scene.data)
    assert hit.detected
    assert hit.message is not None
    assert "shelf_1" in hit.message
    assert hit.max_world_penetration is not None
    assert hit.max_world_penetration > 0.005


def test_an_unwatched_motion_says_that_nothing_was_checked(environment: Environment) -> None:
    moved = environment.move_to(MoveTo(**ABOVE, enable_collision_check=False))

    assert (moved.collision.detected, moved.collision.available) == (False, False)


def test_a_trajectory_stops_at_the_first_waypoint_it_misses(environment: Environment) -> None:
    reply = environment.follow(
        FollowEefTrajectory(
            handle="h",
            trajectory=(
                Waypoint(xyz=(0.0, 0.0, 0.25), euler_xyz_deg=(180, 0, 30)),
                Waypoint(xyz=(0.0, 0.0, 0.80)),
                Waypoint(xyz=(0.1, 0.0, 0.25)),
            ),
        )
    )

    assert (reply.waypoints_requested, reply.waypoints_completed) == (3, 1)
    assert len(reply.waypoint_results) == 2
    assert not reply.reached_target
    assert reply.target.z == 0.80


def test_the_forms_of_an_orientation_mean_the_same(environment: Environment) -> None:
    forms = (
        Waypoint(xyz=(0, 0, 0.25), euler_xyz_deg=(180, 0, 90)),
        Waypoint(xyz=(0, 0, 0.25), quat_xyzw=(0.5**0.5, 0.5**0.5, 0, 0)),
        Waypoint(xyz=(0, 0, 0.25), rotation_matrix=((0, 1, 0), (1, 0, 0), (0, 0, -1))),
    )

    replies = [environment.follow(FollowEefTrajectory(handle="h", trajectory=(f,))) for f in forms]

    assert [reply.reached_target for reply in replies] == [True, True, True]
    yaws = [reply.target.yaw for reply in replies]
    assert yaws == pytest.approx([90.0, 90.0, 90.0])


def test_a_matrix_that_is_no_rotation_moves_nothing(environment: Environment) -> None:
    before = environment.observe(render=False)
    bad = Waypoint(xyz=(0, 0, 0.2), rotation_matrix=((1, 0, 0), (0, 1, 0), (0, 0, -1)))

    with pytest.raises(EnvironmentFault, match="not a rotation"):
        environment.follow(FollowEefTrajectory(handle="h", trajectory=(bad,)))

    assert environment.observe(render=False) == before


def test_the_gripper_command_stays_latched_while_the_hand_moves(environment: Environment) -> None:
    environment.grip(open_fingers=False, num_steps=12)

    moved = environment.move_to(MoveTo(**ABOVE))

    assert not moved.observation.robot.gripper_state.open
    opened = environment.grip(open_fingers=True, num_steps=12)
    assert opened.observation.robot.gripper_state.openness > 0.9


def test_the_checker_pays_once_and_ends_the_episode(
    environment: Environment, scene: TabletopScene
) -> None:
    scene.place("can_1", *BASKET_CENTER)

    won = environment.step(StepEnv(handle="h", action=(0.0,) * 7, num_steps=5))
    after = environment.move_to(MoveTo(**ABOVE))
    again = environment.grip(open_fingers=False, num_steps=3)

    assert (won.reward, won.terminated, won.info.steps_executed) == (1.0, True, 1)
    assert (after.reward, after.terminated, after.steps_executed) == (0.0, True, 0)
    assert (again.reward, again.terminated, again.info.steps_executed) == (0.0, True, 0)
    assert after.note == again.info.note
    assert after.note is not None
    assert after.observation.metadata.state_digest == won.observation.metadata.state_digest
    assert not environment.reset(1).metadata.terminated


def test_success_at_reset_is_flagged_and_not_paid(scene: TabletopScene) -> None:
    environment = blind(WonAtReset(TASKS["pick_can_basket"], scene))

    first = environment.observe(render=False)

    assert first.metadata.success_at_reset
    assert not first.metadata.terminated


def test_an_action_out_of_range_is_clipped_and_an_absent_one_is_drawn_from_the_seed(
    environment: Environment,
) -> None:
    hard = environment.step(StepEnv(handle="h", action=(9.0, 0, 0, 0, 0, 0, -1)))
    environment.reset(1)
    full = environment.step(StepEnv(handle="h", action=(1.0, 0, 0, 0, 0, 0, -1)))
    assert hard == full

    environment.reset(1)
    drawn = environment.step(StepEnv(handle="h", num_steps=3))
    environment.reset(1)
    assert environment.step(StepEnv(handle="h", num_steps=3)) == drawn


def test_privileged_objects_are_only_there_when_asked_for(environment: Environment) -> None:
    names = [seen.name for seen in environment.observe(render=False).objects]
    assert {"can_1", "basket_1", "shelf_1"} <= set(names)
    assert "robot" not in names

    environment.open(
        View(
            width=64,
            height=64,
            cameras=(),
            depth=False,
            include_objects=False,
            quality=Quality.FAST,
        )
    )
    assert environment.reset(1).objects == ()
