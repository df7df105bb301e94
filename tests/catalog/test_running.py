"""Episodes in worker processes: verdicts, failures by class, affinity, records, cleanup."""

from __future__ import annotations

import itertools
import json
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import psutil
import pytest

from openeta_exp.catalog.expansion import Expansion, expand
from openeta_exp.catalog.reading import read_catalog
from openeta_exp.catalog.runner import CatalogRunner
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.stop import FailureClass, StopReason
from openeta_exp.errors import CatalogError, PolicyError
from openeta_exp.ports.policy import PolicyRecipe
from tests.catalog.catalogs import ARM, TASK, evidence_of, number, numbers, policy, running, toy

pytestmark = pytest.mark.anyio


async def run_all(
    runner: CatalogRunner,
    expansion: Expansion,
    recipe: PolicyRecipe,
    specs: Iterable[EpisodeSpec] | None = None,
) -> dict[str, EpisodeOutcome]:
    outcomes: dict[str, EpisodeOutcome] = {}

    async def one(spec: EpisodeSpec) -> None:
        outcomes[spec.episode_id] = await runner.run_episode(spec, policy=recipe, arm=ARM)

    async with anyio.create_task_group() as group:
        for spec in specs or expansion.manifest.episodes:
            group.start_soon(one, spec)
    return outcomes


async def run_first(expansion: Expansion, recipe: PolicyRecipe, **options: Any) -> EpisodeOutcome:
    async with running(expansion, **options) as runner:
        return await runner.run_episode(expansion.manifest.episodes[0], policy=recipe, arm=ARM)


async def test_an_episode_has_the_adapters_verdict_and_keeps_everything_it_said(
    tmp_path: Path,
) -> None:
    outcome = await run_first(toy(tmp_path), policy())

    assert isinstance(outcome, EpisodeResult)
    assert outcome.success
    assert outcome.stop_reason is StopReason.ENVIRONMENT_SUCCESS
    evidence = evidence_of(outcome)
    assert evidence.scenario == {"x": -0.8, "y": 0.2}
    assert number(evidence.result["final_distance"]) < 0.05
    assert evidence.result["where"] == pytest.approx([0, 0], abs=0.05)
    assert len(evidence.step_records) == evidence.steps == outcome.usage.turns
    assert evidence.step_records[0]["move"] == pytest.approx([0.1, -0.1])
    assert evidence.observation_keys == ("images.front", "states", "task_description")
    assert evidence.task_access.read == ("name", "x", "y")
    assert evidence.latency is not None
    assert evidence.latency.count == evidence.steps
    assert set(outcome.initial_frame_sha256) == {"front"}
    assert outcome.initial_state_digest


async def test_the_same_episode_has_the_same_start_and_end_in_another_process(
    tmp_path: Path,
) -> None:
    expansion = toy(tmp_path)
    first, second = [await run_first(expansion, policy()) for _ in range(2)]

    assert first.initial_state_digest == second.initial_state_digest
    assert evidence_of(first).result == evidence_of(second).result


async def test_draws_from_the_global_generators_are_part_of_the_scenario(tmp_path: Path) -> None:
    expansion = toy(tmp_path, provider="GloballySeeded")
    first, second = [await run_first(expansion, policy()) for _ in range(2)]

    assert first.initial_state_digest == second.initial_state_digest


async def test_a_policy_that_never_arrives_is_stopped_by_the_step_limit(tmp_path: Path) -> None:
    outcome = await run_first(toy(tmp_path), policy("still"))

    assert isinstance(outcome, EpisodeResult)
    assert not outcome.success
    assert outcome.stop_reason is StopReason.MAX_TURNS
    assert (outcome.limit, outcome.observed) == (40.0, 40.0)
    evidence = evidence_of(outcome)
    assert evidence.actions_constant


async def test_the_asynchronous_form_gives_the_same_episode(tmp_path: Path) -> None:
    stepped = evidence_of(await run_first(toy(tmp_path / "a"), policy()))
    awaited = evidence_of(await run_first(toy(tmp_path / "b", provider="Asynchronous"), policy()))

    assert (awaited.steps, awaited.result) == (stepped.steps, stepped.result)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"at": "reset"}, "adapter_reset_failed"),
        ({"at": "step"}, "adapter_step_failed"),
        ({"at": "result"}, "adapter_get_step_result_failed"),
        ({"at": "verdict"}, "result_without_success"),
        ({"at": "step", "how": "exit"}, "adapter_process_died"),
        ({"nonsense": 1}, "adapter_build_adapter_failed"),
    ],
)
async def test_a_broken_adapter_costs_an_episode_and_is_named(
    tmp_path: Path, params: dict[str, object], code: str
) -> None:
    outcome = await run_first(toy(tmp_path, provider="Breaking", params=params), policy())

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.failure_class is FailureClass.SIMULATOR
    assert outcome.code == code
    if params.get("how") == "exit":
        assert "exit status 7" in outcome.message
        assert "last words" in outcome.message


async def test_a_worker_that_hangs_is_killed_and_the_next_episode_runs(tmp_path: Path) -> None:
    expansion = toy(tmp_path, provider="Breaking", params={"at": "step", "how": "hang"})
    spec = expansion.manifest.episodes[0]
    hurried = spec.model_copy(update={"budget": spec.budget.model_copy(update={"timeout_s": 2.0})})
    async with running(expansion) as runner:
        for _ in range(2):
            outcome = await runner.run_episode(hurried, policy=policy(), arm=ARM)
            assert isinstance(outcome, EpisodeFailure)
            assert outcome.code == "adapter_timeout"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("not_a_number", "policy_action_unusable"),
        ("matrix", "policy_action_unusable"),
        ("Growing", "policy_action_unusable"),
        ("raising", "policy_act_failed"),
        ("absent", "policy_build_policy_failed"),
    ],
)
async def test_a_broken_policy_is_no_simulator_failure_and_no_lost_episode(
    tmp_path: Path, name: str, code: str
) -> None:
    outcome = await run_first(toy(tmp_path), policy(name))

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.failure_class is FailureClass.POLICY_SERVER
    assert outcome.code == code


async def test_actions_reach_the_adapter_as_float32(tmp_path: Path) -> None:
    outcome = await run_first(toy(tmp_path), policy(gain=1 / 3))

    (x, y) = numbers(evidence_of(outcome).step_records[0]["move"])
    exact = np.array([4 / 15, -1 / 15], dtype=np.float64)
    single = (-1 / 3 * np.array([-0.8, 0.2], dtype=np.float32)).astype(np.float32)
    assert abs(x / 0.1 - exact[0]) > 1e-9
    assert y == pytest.approx(float(single[1]) * 0.1, rel=1e-7)


async def test_an_adapter_is_built_once_per_worker_and_cleaned_up(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    expansion = toy(
        tmp_path, provider="Marked", params={"marks": str(marks)}, task={"provider_ref": {}}
    )
    async with running(expansion, size=2) as runner:
        await run_all(runner, expansion, policy())

    lines = marks.read_text(encoding="utf-8").splitlines()
    workers = {line.split()[0] for line in lines}
    assert len(workers) <= 2
    for worker in workers:
        own = [line.split(maxsplit=1)[1] for line in lines if line.startswith(worker)]
        assert own[0] == "built"
        assert own[-1] == "cleaned up"
        assert own.count("built") == own.count("cleaned up") == 1


async def test_a_worker_goes_on_with_the_task_it_has_open(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    goals = [toy_goal(index) for index in range(3)]
    toy(tmp_path, provider="Marked", params={"marks": str(marks)}, task={"provider_ref": {}})
    (tmp_path / "tasks.yaml").write_text(json.dumps({"tasks": goals}), encoding="utf-8")
    expansion = expand(read_catalog(tmp_path))
    # Interleaved on purpose, as a paired schedule would.
    specs = sorted(expansion.manifest.episodes, key=lambda spec: str(spec.scenario))
    async with running(expansion) as runner:
        await run_all(runner, expansion, policy(), specs)

    order = [
        line.split()[3]
        for line in marks.read_text(encoding="utf-8").splitlines()
        if "reset" in line
    ]
    changes = sum(before != after for before, after in itertools.pairwise(order))
    assert len(order) == 18
    assert changes == 2


def toy_goal(index: int) -> dict[str, object]:
    return {
        **TASK,
        "id": f"goal-{index}",
        "instruction": f"goal {index}",
        "provider_ref": {"task_id": index},
    }


async def test_step_records_and_videos_go_to_files_when_folders_are_named(tmp_path: Path) -> None:
    expansion = toy(tmp_path, provider="Filming")
    outcome = await run_first(
        expansion, policy(), steps_dir=tmp_path / "steps", video_dir=tmp_path / "video"
    )

    evidence = evidence_of(outcome)
    assert evidence.steps_file is not None
    lines = (tmp_path / "steps" / evidence.steps_file.file).read_text(encoding="utf-8").splitlines()
    assert len(lines) == evidence.steps_file.count == evidence.steps
    assert json.loads(lines[0])["step"] == 0
    assert evidence.video_file is not None
    assert (tmp_path / "video" / evidence.video_file).read_bytes()[8:12] == b"WEBP"


async def test_another_interpreter_runs_the_worker(tmp_path: Path) -> None:
    marked = tmp_path / "python"
    log = tmp_path / "used"
    marked.write_text(f'#!/bin/sh\necho used >> {log}\nexec {sys.executable} "$@"\n')
    marked.chmod(marked.stat().st_mode | stat.S_IXUSR)

    outcome = await run_first(toy(tmp_path), policy(), interpreter=str(marked))

    assert isinstance(outcome, EpisodeResult)
    assert log.read_text(encoding="utf-8") == "used\n"


async def test_an_interpreter_that_does_not_exist_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="cannot be started"):
        await run_first(toy(tmp_path), policy(), interpreter=str(tmp_path / "absent"))


async def test_an_adapter_describes_itself_and_unknown_instructions_are_explained(
    tmp_path: Path,
) -> None:
    right = toy(tmp_path / "right")
    wrong = toy(tmp_path / "wrong", task={"instruction": "reach the midle"})
    other = toy(tmp_path / "other", task={"provider_ref": {"task_id": 9}})
    async with running(right) as runner:
        described = await runner.describe_adapter(right.manifest.episodes[0].env_id)
        assert described.selected["task_id"] == 0
        assert described.metadata == {"max_steps": 40}
        assert "scale_actuator" in described.methods
    async with running(wrong) as runner:
        with pytest.raises(CatalogError, match="did you mean 'reach the middle'"):
            await runner.describe_adapter(wrong.manifest.episodes[0].env_id)
    async with running(other) as runner:
        with pytest.raises(CatalogError, match=r"provider_ref.task_id is 9"):
            await runner.describe_adapter(other.manifest.episodes[0].env_id)


async def test_a_policy_that_cannot_be_built_is_a_policy_error(tmp_path: Path) -> None:
    async with running(toy(tmp_path)) as runner:
        with pytest.raises(PolicyError, match="absent"):
            await runner.describe_policy(policy("absent"))


async def test_a_scenario_that_contradicts_the_task_is_refused(tmp_path: Path) -> None:
    expansion = toy(
        tmp_path,
        scenarios={
            "params": {"x": {"value": 0.5}, "y": {"value": 0.5}, "task_id": {"value": 1}},
        },
    )
    outcome = await run_first(expansion, policy())

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.code == "scenario_collision"


async def test_the_repeat_index_is_the_adapters_episode_index(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    toy(tmp_path, provider="Marked", params={"marks": str(marks)}, task={"provider_ref": {}})
    expansion = expand(read_catalog(tmp_path), repeats=3)
    async with running(expansion) as runner:
        for spec in expansion.manifest.episodes[:3]:
            await runner.run_episode(spec, policy=policy(), arm=ARM)

    seen = [
        line.split()[-1]
        for line in marks.read_text(encoding="utf-8").splitlines()
        if "reset" in line
    ]
    assert seen == ["0", "1", "2"]


async def test_cancelling_an_episode_ends_its_process(tmp_path: Path) -> None:
    expansion = toy(tmp_path, provider="Breaking", params={"at": "step", "how": "hang"})
    before = {child.pid for child in psutil.Process().children()}
    async with running(expansion) as runner:
        with anyio.move_on_after(1.5):
            await runner.run_episode(expansion.manifest.episodes[0], policy=policy(), arm=ARM)
        assert {child.pid for child in psutil.Process().children()} <= before
