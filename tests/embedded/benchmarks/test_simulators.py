"""Policies run on the environments planners run on, from the same states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openeta_exp.catalog.environments import PROVIDER, expand_manifest
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.embedded.simulator.environment import Environment
from openeta_exp.embedded.simulator.observing import View
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.tabletop.adapter import TabletopBackend
from openeta_exp.embedded.simulator.tabletop.tasks import TASKS
from openeta_exp.errors import CatalogError
from tests.catalog.catalogs import ARM, evidence_of, numbers, policy, running, toy

pytestmark = pytest.mark.anyio

CAN = "openeta/tabletop_pick_can_basket-v0"
LIBERO = "openeta/libero_libero_object_task0-v0"


def manifest(env_id: str, *seeds: int) -> Manifest:
    return Manifest(
        episodes=tuple(
            EpisodeSpec(
                episode_id=EpisodeId(f"e{seed}"), env_id=env_id, task="put it there", seed=seed
            )
            for seed in seeds
        )
    )


async def test_a_policy_solves_a_planners_episode_from_the_planners_state() -> None:
    expansion = expand_manifest(manifest(CAN, 3), cameras=(), privileged=True)
    spec = expansion.manifest.episodes[0]
    recipe = policy("CanToBasket", module="tests.embedded.benchmarks.toy_arm")
    async with running(expansion) as runner:
        first = await runner.run_episode(spec, policy=recipe, arm=ARM)
        second = await runner.run_episode(spec, policy=recipe, arm=ARM)

    assert isinstance(first, EpisodeResult)
    assert first.success
    assert first.spec_digest == spec.content_digest
    assert evidence_of(first).step_records == evidence_of(second).step_records


def test_the_adapter_and_the_server_start_a_seed_from_one_state() -> None:
    from openeta_exp.wire.vla_eval_standin import provide

    provide()
    from openeta_exp.embedded.benchmarks.simulators import SimulatorBenchmark

    adapter = SimulatorBenchmark(env_id=CAN, cameras=())
    raw = adapter.reset({"env_id": CAN, "seed": 5})
    environment = Environment(TabletopBackend(TASKS["pick_can_basket"]), env_id=CAN, gl="none")
    environment.open(
        View(
            width=64, height=64, cameras=(), depth=False, include_objects=False,
            quality=Quality.FAST,
        )
    )  # fmt: skip
    environment.reset(5)
    served = environment.backend

    assert np.array_equal(adapter._running().data.qpos, served.data.qpos)
    assert np.array_equal(np.asarray(raw["states"])[:3], served.hand_pose().xyz.astype(np.float32))


async def test_the_tabletop_is_a_scene_for_catalogs_with_working_perturbations(
    tmp_path: Path,
) -> None:
    expansion = toy(
        tmp_path,
        scene={
            "external": {
                "provider": PROVIDER,
                "params": {"suite": "tabletop", "cameras": [], "privileged": True},
            }
        },
        task={
            "instruction": "pick up the can and place it in the basket",
            "provider_ref": {"task_id": 0},
            "max_steps": 12,
        },
        scenarios={
            "params": {"seed": {"choices": [0, 1]}},
            "perturbations": [
                {
                    "type": "displace_body",
                    "target": "can_1",
                    "at_step": 2,
                    "args": {"delta": [0.05, 0, 0]},
                },
                {
                    "type": "scale_actuator",
                    "target": "left_finger",
                    "at_step": 3,
                    "args": {"factor": 0.5},
                },
                {
                    "type": "apply_force",
                    "target": "can_1",
                    "at_step": 4,
                    "args": {"wrench": [0, 0, 9, 0, 0, 0]},
                },
            ],
        },
    )
    recipe = policy("wave", module="tests.embedded.benchmarks.toy_arm")
    async with running(expansion) as runner:
        outcomes = [
            await runner.run_episode(spec, policy=recipe, arm=ARM)
            for spec in expansion.manifest.episodes
        ]

    evidence = evidence_of(outcomes[1])
    assert evidence.perturbed_as_planned
    displaced, scaled, pushed = evidence.receipts
    before, after = numbers(displaced["before"]), numbers(displaced["after"])
    assert after[0] - before[0] == pytest.approx(0.05)
    # The first episode halved it too; the reset put it back.
    assert (scaled["before"], scaled["after"]) == (14.0, 7.0)
    assert pushed["after"] == [0, 0, 9, 0, 0, 0]


async def test_a_foreign_environment_is_refused() -> None:
    with pytest.raises(CatalogError, match="embedded ids begin with openeta/"):
        expand_manifest(manifest("somewhere/else", 0))


@pytest.mark.libero
async def test_libero_runs_a_policy_from_the_state_its_seed_selects() -> None:
    expansion = expand_manifest(manifest(LIBERO, 0, 7), cameras=(), max_steps=5, privileged=True)
    recipe = policy("wave", module="tests.embedded.benchmarks.toy_arm")
    specs = expansion.manifest.episodes
    async with running(expansion) as runner:
        first, other, again = [
            await runner.run_episode(spec, policy=recipe, arm=ARM)
            for spec in (specs[0], specs[1], specs[0])
        ]

    assert isinstance(first, EpisodeResult)
    assert evidence_of(first).steps == 5
    assert evidence_of(first).observation_keys == evidence_of(other).observation_keys
    assert "objects.alphabet_soup_1" in evidence_of(first).observation_keys
    assert first.initial_state_digest != other.initial_state_digest
    assert first.initial_state_digest == again.initial_state_digest
    assert evidence_of(first).step_records == evidence_of(again).step_records
