"""Perturbations change the world, or the observation, and prove it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openeta_exp.catalog.pool import WorkerPool
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from tests.catalog.catalogs import ARM, evidence_of, number, numbers, policy, runner_on, toy

pytestmark = pytest.mark.anyio


async def perturbed(
    pool: WorkerPool, directory: Path, name: str = "Homing", **entry: Any
) -> EpisodeOutcome:
    expansion = toy(directory, scenarios={"perturbations": [{"at_step": 2, **entry}]})
    runner = runner_on(pool, expansion)
    return await runner.run_episode(expansion.manifest.episodes[0], policy=policy(name), arm=ARM)


async def test_a_weaker_actuator_takes_longer_and_is_restored(
    tmp_path: Path, pool: WorkerPool
) -> None:
    evidence = evidence_of(
        await perturbed(
            pool,
            tmp_path,
            type="scale_actuator",
            target="motor",
            until_step=6,
            args={"factor": 0.5},
        )
    )

    (receipt,) = evidence.receipts
    assert (receipt["before"], receipt["after"], receipt["restored"]) == (1.0, 0.5, 1.0)
    assert (receipt["first_step"], receipt["ended_at"]) == (2, 6)
    moves = [abs(number(each["x"])) for each in evidence.step_records]
    assert moves[1] - moves[2] == pytest.approx(0.05)
    assert evidence.perturbed_as_planned


async def test_a_body_is_displaced_by_the_given_vector(tmp_path: Path, pool: WorkerPool) -> None:
    evidence = evidence_of(
        await perturbed(
            pool,
            tmp_path,
            "still",
            type="displace_body",
            target="point",
            args={"delta": [0.1, 0.2, 0]},
        )
    )

    (receipt,) = evidence.receipts
    assert receipt["before"] == pytest.approx([-0.8, 0.2, 0])
    assert receipt["after"] == pytest.approx([-0.7, 0.4, 0])


async def test_a_force_is_applied_and_read_back(tmp_path: Path, pool: WorkerPool) -> None:
    evidence = evidence_of(
        await perturbed(
            pool,
            tmp_path,
            type="apply_force",
            target="point",
            args={"wrench": [0.1, 0, 0, 0, 0, 0]},
        )
    )

    assert evidence.receipts[0]["after"] == [0.1, 0, 0, 0, 0, 0]


async def test_a_dropped_observation_reaches_the_policy_as_zeros_and_then_returns(
    tmp_path: Path, pool: WorkerPool
) -> None:
    evidence = evidence_of(
        await perturbed(pool, tmp_path, type="drop_observation", target="states", until_step=5)
    )

    (receipt,) = evidence.receipts
    assert receipt["applications"] == receipt["changed"] == 3
    still = [numbers(each["move"])[1] for each in evidence.step_records[2:5]]
    assert still == pytest.approx([0, 0, 0])
    assert abs(numbers(evidence.step_records[5]["move"])[0]) > 0.05


async def test_an_observation_is_replaced_by_the_adapters_alternative(
    tmp_path: Path, pool: WorkerPool
) -> None:
    evidence = evidence_of(
        await perturbed(
            pool,
            tmp_path,
            type="substitute_observation",
            target="task_description",
            args={"kind": "instruction", "name": "paraphrase"},
        )
    )

    assert evidence.receipts[0]["changed"] == evidence.steps - 2


async def test_a_perturbation_after_the_end_has_not_fired_and_says_so(
    tmp_path: Path, pool: WorkerPool
) -> None:
    expansion = toy(
        tmp_path,
        scenarios={
            "perturbations": [{"type": "drop_observation", "target": "states", "at_step": 39}]
        },
    )
    runner = runner_on(pool, expansion)
    outcome = await runner.run_episode(expansion.manifest.episodes[0], policy=policy(), arm=ARM)

    evidence = evidence_of(outcome)
    assert evidence.receipts[0]["fired"] is False
    assert not evidence.perturbed_as_planned


@pytest.mark.parametrize(
    ("target", "code"),
    [("images.top", "perturbation_target_absent"), ("nothing", "perturbation_target_absent")],
)
async def test_an_observation_that_does_not_exist_cannot_be_dropped(
    tmp_path: Path, pool: WorkerPool, target: str, code: str
) -> None:
    outcome = await perturbed(pool, tmp_path, type="drop_observation", target=target)

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.code == code


async def test_an_adapter_without_the_methods_is_refused_by_their_names(
    tmp_path: Path, pool: WorkerPool
) -> None:
    expansion = toy(
        tmp_path,
        provider="Empty",
        task={"instruction": "nothing", "provider_ref": {}},
        scenarios={
            "params": {"n": {"value": 1}},
            "perturbations": [
                {"type": "displace_body", "target": "a", "at_step": 0, "args": {"delta": [0, 0, 1]}}
            ],
        },
    )
    runner = runner_on(pool, expansion)
    outcome = await runner.run_episode(
        expansion.manifest.episodes[0], policy=policy("still"), arm=ARM
    )

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.code == "adapter_lacks_primitive"
    assert "get_body_pose, set_body_pose" in outcome.message
