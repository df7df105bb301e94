"""The tabletop: what a seed draws, what counts as placed, and what makes grasps fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.embedded.simulator.tabletop.adapter import TabletopBackend
from openeta_exp.embedded.simulator.tabletop.mjcf import (
    BASKET_CENTER,
    SHAPE_BY_CATEGORY,
    SHELF_CENTER,
    SHELF_TOP,
)
from openeta_exp.embedded.simulator.tabletop.scene import TabletopScene
from openeta_exp.embedded.simulator.tabletop.tasks import TASKS
from scripts.benchmarks.sim_pick import NAIVE, BareArm, Strategy, pick_and_place

pytestmark = pytest.mark.anyio

STILL = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])
SCENE = TabletopScene()


def wait(scene: TabletopScene, steps: int = 10) -> None:
    for _ in range(steps):
        scene.step(STILL)


@settings(max_examples=25, deadline=None)
@given(st.integers(min_value=0, max_value=2**32 - 1), st.sampled_from(SCENE.object_names))
def test_drawn_placements_are_stable_apart_and_crowded(seed: int, target: str) -> None:
    placed = SCENE.scatter(seed, target=target)
    wait(SCENE)

    assert len(placed) == 4
    gaps = []
    for name, spot in placed.items():
        assert np.allclose(SCENE.position(name)[:2], (spot.x, spot.y), atol=0.002)
        if name != target:
            radii = [SHAPE_BY_CATEGORY[n.rsplit("_", 1)[0]].radius for n in (name, target)]
            apart = np.hypot(spot.x - placed[target].x, spot.y - placed[target].y)
            gaps.append(apart - sum(radii))
    assert 0.0 < min(gaps) < 0.03


def test_a_seed_draws_the_same_scene_and_another_seed_another() -> None:
    first = SCENE.scatter(11, target="cup_1")

    assert SCENE.scatter(12, target="cup_1") != first
    assert SCENE.scatter(11, target="cup_1") == first


def test_an_object_is_in_the_basket_or_on_the_shelf_only_where_it_rests_there() -> None:
    SCENE.restart()
    SCENE.place("cup_1", *BASKET_CENTER)
    SCENE.place("can_1", 0.0, 0.0)
    wait(SCENE)
    assert SCENE.in_basket("cup_1")
    assert not SCENE.in_basket("can_1")
    assert not SCENE.on_shelf("cup_1")

    SCENE.place("cup_1", *SHELF_CENTER)
    start = SCENE.model.joint("cup_1").qposadr[0]
    SCENE.data.qpos[start + 2] += SHELF_TOP
    wait(SCENE)
    assert SCENE.on_shelf("cup_1")

    # The same place upside down.
    SCENE.data.qpos[start + 3 : start + 7] = (0.0, 1.0, 0.0, 0.0)
    wait(SCENE)
    assert not SCENE.on_shelf("cup_1")


def test_placing_an_unknown_object_is_refused() -> None:
    with pytest.raises(KeyError):
        SCENE.place("anvil_1", 0.0, 0.0)


async def wins(slug: str, strategy: Strategy, seeds: range) -> int:
    arm = BareArm(TabletopBackend(TASKS[slug], SCENE))
    goal = "shelf_1" if slug.endswith("shelf") else "basket_1"
    won = 0
    for seed in seeds:
        arm.reset(seed)
        won += await pick_and_place(
            arm, target=TASKS[slug].target, container=goal, strategy=strategy
        )
    return won


@pytest.mark.parametrize("slug", list(TASKS))
async def test_a_good_strategy_solves_every_task(slug: str) -> None:
    assert await wins(slug, Strategy(), range(3)) >= 2


async def test_a_naive_grasp_solves_the_can_and_fails_on_what_needs_thought() -> None:
    assert await wins("pick_can_basket", NAIVE, range(3)) == 3
    assert await wins("pick_bottle_basket", NAIVE, range(3)) == 0
    assert await wins("pick_bowl_basket", NAIVE, range(3)) == 0
