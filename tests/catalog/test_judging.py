"""Success rules, metrics and phases decide, instead of being decoration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openeta_exp.catalog.pool import WorkerPool
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from tests.catalog.catalogs import ARM, evidence_of, number, policy, runner_on, toy

pytestmark = pytest.mark.anyio

_JUDGES = "tests.catalog.toy_judges"


def metrics(extractor: str = "distance", **args: float) -> dict[str, Any]:
    return {
        "metrics": [{"extractor": f"{_JUDGES}:{extractor}", "produces": ["distance"], "args": args}]
    }


async def first(
    pool: WorkerPool, directory: Path, name: str = "Homing", **changes: Any
) -> EpisodeOutcome:
    expansion = toy(directory, **changes)
    runner = runner_on(pool, expansion)
    return await runner.run_episode(expansion.manifest.episodes[0], policy=policy(name), arm=ARM)


async def test_a_threshold_narrows_the_environments_verdict(
    tmp_path: Path, pool: WorkerPool
) -> None:
    rule = {"all_of": [{"metric": "distance", "at_most": 0.05}]}
    strict = {"all_of": [{"metric": "distance", "at_least": 99}]}

    kept = await first(pool, tmp_path / "a", task={"success": rule}, scene=metrics())
    lost = await first(pool, tmp_path / "b", task={"success": strict}, scene=metrics())

    assert isinstance(kept, EpisodeResult)
    assert kept.success
    assert number(evidence_of(kept).metrics["distance"]) < 0.05
    assert isinstance(lost, EpisodeResult)
    assert not lost.success
    assert evidence_of(lost).unmet == ("distance >= 99",)


async def test_a_threshold_never_turns_a_failure_into_a_success(
    tmp_path: Path, pool: WorkerPool
) -> None:
    rule = {"all_of": [{"metric": "distance", "at_most": 99}]}
    outcome = await first(pool, tmp_path, "still", task={"success": rule}, scene=metrics())

    assert isinstance(outcome, EpisodeResult)
    assert not outcome.success


async def test_an_extractor_gets_its_arguments(tmp_path: Path, pool: WorkerPool) -> None:
    one = evidence_of(await first(pool, tmp_path / "a", scene=metrics()))
    ten = evidence_of(await first(pool, tmp_path / "b", scene=metrics(scale=10.0)))

    assert ten.metrics["distance"] == pytest.approx(10 * number(one.metrics["distance"]))


async def test_a_metric_that_is_declared_and_never_measured_is_a_failure(
    tmp_path: Path, pool: WorkerPool
) -> None:
    outcome = await first(pool, tmp_path, scene=metrics("silent"))

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.code == "metric_unusable"
    assert "declared but absent ['distance']" in outcome.message


async def test_a_predicate_of_the_users_own_decides(tmp_path: Path, pool: WorkerPool) -> None:
    task = {"predicate": f"{_JUDGES}:closer_than", "predicate_args": {"limit": 1e-9}}
    outcome = await first(pool, tmp_path, task=task)

    assert isinstance(outcome, EpisodeResult)
    assert not outcome.success


async def test_phases_are_reached_in_order_with_their_steps(
    tmp_path: Path, pool: WorkerPool
) -> None:
    phases = [
        {"name": name, "predicate": f"{_JUDGES}:closer_than", "predicate_args": {"limit": limit}}
        for name, limit in (("near", 0.5), ("nearer", 0.2), ("never", -1.0))
    ]
    outcome = await first(pool, tmp_path, task={"phases": phases})

    reached = evidence_of(outcome).phases
    assert isinstance(reached["near"], int)
    assert isinstance(reached["nearer"], int)
    assert reached["near"] < reached["nearer"]
    assert reached["never"] is None
