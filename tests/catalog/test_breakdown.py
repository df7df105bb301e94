"""Curves over a perturbation level, and where two arms differ."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from openeta_exp.catalog.breakdown import Breakdown
from openeta_exp.catalog.comparison_tables import compared_policy, parameter_rows
from openeta_exp.catalog.expansion import Expansion, expand
from openeta_exp.catalog.pool import WorkerPool
from openeta_exp.catalog.sweeps import sweep_curves
from openeta_exp.domain.episode import (
    Cleanup,
    CleanupStatus,
    EpisodeFailure,
    EpisodeOutcome,
)
from openeta_exp.domain.identity import ExecutionId, SessionId
from openeta_exp.domain.stop import FailureClass
from tests import batches
from tests.catalog.catalogs import ARM, policy, runner_on, running, toy, toy_catalog

pytestmark = pytest.mark.anyio


async def outcomes_of(
    pool: WorkerPool, expansion: Expansion, *gains: float
) -> list[list[EpisodeOutcome]]:
    runner = runner_on(pool, expansion)
    return [
        [
            await runner.run_episode(spec, policy=policy(gain=gain), arm=ARM)
            for spec in expansion.manifest.episodes
        ]
        for gain in gains
    ]


def broken(outcome: EpisodeOutcome) -> EpisodeFailure:
    return EpisodeFailure(
        episode_id=outcome.episode_id,
        spec_digest=outcome.spec_digest,
        arm_digest=outcome.arm_digest,
        session_id=SessionId("s"),
        execution_id=ExecutionId("x"),
        cleanup=Cleanup(status=CleanupStatus.CLOSED),
        failure_class=FailureClass.SIMULATOR,
        error_type="SimulatorError",
        code="simulator_lost",
        message="gone",
    )


async def test_a_sweep_shows_where_a_policy_begins_to_fail(
    tmp_path: Path, pool: WorkerPool
) -> None:
    expansion = toy(
        tmp_path,
        task={"max_steps": 20},
        scenarios={
            "perturbations": [
                {
                    "type": "scale_actuator",
                    "target": "motor",
                    "at_step": 0,
                    "levels": [1.0, 0.5, 0.1],
                }
            ]
        },
    )
    (found,) = await outcomes_of(pool, expansion, 5.0)
    (curve,) = sweep_curves(expansion, found)

    assert [point.level for point in curve.points] == [0.1, 0.5, 1.0]
    assert [point.exposed for point in curve.points] == [6, 6, 6]
    rates = [point.rate for point in curve.points]
    assert rates[0] == 0.0
    assert rates[2] == 1.0
    assert 1.0 in curve.points[2].interval


async def test_episodes_that_ended_before_the_perturbation_do_not_count(
    tmp_path: Path, pool: WorkerPool
) -> None:
    expansion = toy(
        tmp_path,
        scenarios={
            "perturbations": [
                {
                    "type": "scale_actuator",
                    "target": "motor",
                    "at_step": 39,
                    "levels": [0.5],
                }
            ]
        },
    )
    (found,) = await outcomes_of(pool, expansion, 5.0)
    (curve,) = sweep_curves(expansion, [broken(found[0]), *found[1:]])
    (point,) = curve.points

    assert (point.exposed, point.unexposed, point.broken) == (0, 5, 1)
    assert point.rate is None


async def test_flips_cells_and_heat_map_agree(tmp_path: Path, pool: WorkerPool) -> None:
    expansion = toy(tmp_path, task={"max_steps": 9})
    strong, weak = await outcomes_of(pool, expansion, 9.0, 1.0)
    breakdown = Breakdown(expansion, baseline=strong, candidate=weak)

    flips = list(breakdown.flips())
    assert flips
    assert not any(flip.improved for flip in flips)
    cells = [each for each in breakdown.by_parameter() if each.parameter == "x"]
    assert [each.value for each in cells] == [-0.8, 0.0, 0.8]
    assert sum(each.cell.baseline_only for each in cells) == len(flips)
    assert sum(each.cell.pairs for each in cells) == 6
    heat = breakdown.heat_map("x", "y")
    assert (heat.rows, heat.columns) == ((-0.8, 0.0, 0.8), (0.2, 0.6))
    middle = heat.cells[1][0]
    assert middle is not None
    assert middle.pairs == 1
    assert middle.effect is not None


async def test_a_pair_that_broke_is_counted_and_is_no_flip(
    tmp_path: Path, pool: WorkerPool
) -> None:
    expansion = toy(tmp_path, task={"max_steps": 9})
    strong, weak = await outcomes_of(pool, expansion, 9.0, 1.0)
    breakdown = Breakdown(expansion, baseline=strong, candidate=[broken(each) for each in weak])

    assert list(breakdown.flips()) == []
    cells = [each.cell for each in breakdown.by_parameter() if each.parameter == "y"]
    assert sum(cell.excluded for cell in cells) == 6
    assert all(cell.effect is None and cell.interval() is None for cell in cells)


async def test_a_pair_that_was_solved_at_reset_is_no_flip_and_no_episode_of_a_policy(
    tmp_path: Path, pool: WorkerPool
) -> None:
    expansion = toy(tmp_path, task={"max_steps": 9})
    strong, weak = await outcomes_of(pool, expansion, 9.0, 1.0)
    idle = [each.model_copy(update={"success": False, "success_at_reset": True}) for each in weak]
    breakdown = Breakdown(expansion, baseline=strong, candidate=idle)

    assert list(breakdown.flips()) == []
    cells = [each.cell for each in breakdown.by_parameter() if each.parameter == "y"]
    assert sum(cell.excluded for cell in cells) == 6
    policy = compared_policy(batches.arm("weak"), {}, expansion, [*idle[:2], *strong[2:]])
    assert (policy.episodes, policy.verdicts, policy.rate) == (6, 4, 1.0)


async def test_no_interval_takes_repeats_of_a_scenario_for_more_scenarios(
    tmp_path: Path, pool: WorkerPool
) -> None:
    weakened = {"type": "scale_actuator", "target": "motor", "at_step": 0, "levels": [1.0, 0.5]}
    catalog = toy_catalog(tmp_path, task={"max_steps": 9}, scenarios={"perturbations": [weakened]})
    tables = []
    for repeats in (1, 5):
        expansion = expand(catalog, repeats=repeats)
        strong, weak = await outcomes_of(pool, expansion, 9.0, 4.0)
        breakdown = Breakdown(expansion, baseline=strong, candidate=weak)
        policy_row = compared_policy(batches.arm("weak"), {}, expansion, weak)
        levels = [(row.exposed, row.interval) for row in sweep_curves(expansion, weak)[0].points]
        cells = [(each.cell.pairs, each.cell.interval()) for each in breakdown.by_parameter()]
        tables.append((policy_row, levels, cells, parameter_rows(breakdown)))
    (once, levels, cells, rows), (again, levels_again, cells_again, rows_again) = tables

    assert again.episodes == 5 * once.episodes
    assert 0 < once.successes < once.episodes
    assert (again.low, again.high) == (once.low, once.high)
    assert levels_again == [(5 * exposed, interval) for exposed, interval in levels]
    assert len({interval for _, interval in cells}) > 1
    for (pairs, interval), (pairs_again, interval_again) in zip(cells, cells_again, strict=True):
        assert interval is not None
        assert interval_again is not None
        assert pairs_again == 5 * pairs
        assert (interval_again.low, interval_again.high) == pytest.approx(
            (interval.low, interval.high)
        )
    assert [row.value for row in rows_again] == [row.value for row in rows]


async def test_a_parameter_with_another_value_in_every_scenario_has_no_rows_whatever_its_repeats(
    tmp_path: Path, pool: WorkerPool
) -> None:
    catalog = toy_catalog(
        tmp_path,
        scenarios={
            "params": {
                "x": {"range": [-0.8, 0.8], "steps": 3},
                "y": {"range": [0.2, 0.2], "steps": 1},
            }
        },
    )
    expansion = expand(catalog, repeats=2)
    strong, weak = await outcomes_of(pool, expansion, 9.0, 1.0)
    breakdown = Breakdown(expansion, baseline=strong, candidate=weak)

    assert [each.cell.pairs for each in breakdown.by_parameter()] == [2, 2, 2]
    assert parameter_rows(breakdown) == ()


async def test_hundreds_of_null_episodes_take_seconds(tmp_path: Path) -> None:
    expansion = toy(
        tmp_path,
        provider="Empty",
        task={"instruction": "nothing", "provider_ref": {}},
        scenarios={"params": {"n": {"range": [1, 300], "steps": 300}}},
    )
    ended: list[EpisodeOutcome] = []
    async with running(expansion, size=2) as runner, anyio.create_task_group() as group:

        async def one(index: int) -> None:
            spec = expansion.manifest.episodes[index]
            ended.append(await runner.run_episode(spec, policy=policy("still"), arm=ARM))

        with anyio.fail_after(30):
            for index in range(300):
                group.start_soon(one, index)

    assert len(ended) == 300
    assert len({row.pair_key for row in expansion.rows}) == 300
