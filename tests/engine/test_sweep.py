"""Jobs of a sweep: which are one lineage, in what order they run, and what a failure ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
import pytest

from openeta_exp.engine.sweep import LineageEnd, run_lineages
from openeta_exp.engine.sweep_grouping import SweptJob, SweptLineage, group_by_lineage

pytestmark = pytest.mark.anyio

PROFILES = ("standard", "reviewed_autonomy")


def job(
    generation: int | None, *, experiment_id: str = "grasp", **choices: str
) -> SweptJob[tuple[str, int | None]]:
    label = "/".join(choices.values())
    return SweptJob(
        choices={name.replace("__", "."): value for name, value in choices.items()},
        generation=generation,
        experiment_id=experiment_id,
        asked=(label, generation),
    )


def two_by_three() -> tuple[SweptLineage[tuple[str, int | None]], ...]:
    """As Hydra expands `generation=range(3) approvement=standard,reviewed_autonomy`."""
    return group_by_lineage(
        [job(generation, approvement=profile) for generation in range(3) for profile in PROFILES]
    )


@dataclass
class Machine:
    """Where jobs run: remembers what was run, and fails where it is told to."""

    broken: set[tuple[str, int | None]] = field(default_factory=set)
    capped: set[tuple[str, int | None]] = field(default_factory=set)
    finished: set[tuple[str, int | None]] = field(default_factory=set)
    ran: list[tuple[str, int | None]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def run(self, asked: tuple[str, int | None]) -> int | None:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        self.ran.append(asked)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        self.at_once -= 1
        if asked in self.broken:
            return 3
        if asked in self.capped:
            return None
        self.finished.add(asked)
        return 0

    async def sweep(self, *, at_once: int = 1) -> tuple[LineageEnd[tuple[str, int | None]], ...]:
        return await run_lineages(
            two_by_three(),
            at_once=at_once,
            is_finished=self.finished.__contains__,
            run_job=self.run,
        )


def states(ends: tuple[LineageEnd[tuple[str, int | None]], ...]) -> Mapping[str, list[str]]:
    return {end.lineage.axes["approvement"]: [job.state.value for job in end.jobs] for end in ends}


async def test_generations_of_a_lineage_run_in_order() -> None:
    machine = Machine()

    ends = await machine.sweep()

    assert machine.ran == [(profile, number) for profile in PROFILES for number in range(3)]
    assert machine.most_at_once == 1
    assert states(ends) == {profile: ["ran"] * 3 for profile in PROFILES}


async def test_lineages_run_side_by_side_and_their_generations_still_in_order() -> None:
    machine = Machine()

    await machine.sweep(at_once=2)

    assert machine.most_at_once == 2
    for profile in PROFILES:
        assert [number for name, number in machine.ran if name == profile] == [0, 1, 2]


@pytest.mark.parametrize("at_once", [1, 2])
async def test_a_failed_job_ends_its_lineage_and_a_rerun_resumes(at_once: int) -> None:
    machine = Machine(broken={("standard", 1)})

    first = await machine.sweep(at_once=at_once)
    machine.broken.clear()
    machine.ran.clear()
    second = await machine.sweep(at_once=at_once)

    assert states(first) == {
        "standard": ["ran", "failed", "not run"],
        "reviewed_autonomy": ["ran", "ran", "ran"],
    }
    assert first[0].failed is not None
    assert first[0].failed.exit_code == 3
    assert machine.ran == [("standard", 1), ("standard", 2)]
    assert states(second) == {
        "standard": ["known", "ran", "ran"],
        "reviewed_autonomy": ["known"] * 3,
    }


async def test_a_job_that_a_cap_has_stopped_ends_its_lineage_without_a_failure() -> None:
    machine = Machine(capped={("standard", 1)})

    first = await machine.sweep()
    machine.capped.clear()
    second = await machine.sweep()

    assert states(first)["standard"] == ["ran", "stopped", "not run"]
    assert [end.failed for end in first] == [None, None]
    assert states(second)["standard"] == ["known", "ran", "ran"]


def names(*jobs: SweptJob[tuple[str, int | None]]) -> list[str]:
    return [lineage.experiment_id for lineage in group_by_lineage(jobs)]


def test_one_lineage_keeps_the_name_of_its_experiment() -> None:
    (only,) = group_by_lineage([job(number, approvement="standard") for number in (2, 0, 1)])

    assert only.experiment_id == "grasp"
    assert only.axes == {}
    assert [number for _, number in only.jobs] == [0, 1, 2]


def test_names_tell_what_differs_and_do_not_change_when_a_value_is_added() -> None:
    two = names(*(job(0, approvement=each, gate="fixed") for each in PROFILES))
    three = names(*(job(0, approvement=each, gate="fixed") for each in (*PROFILES, "human_gated")))

    assert two == ["grasp-approvement-standard", "grasp-approvement-reviewed_autonomy"]
    assert three[:2] == two


def test_the_order_of_arguments_changes_no_name() -> None:
    written = [
        job(0, gate=gate, concurrency__episodes=n) for gate in ("local", "fixed") for n in "12"
    ]
    turned = [
        job(0, concurrency__episodes=n, gate=gate) for gate in ("local", "fixed") for n in "12"
    ]

    assert names(*written) == names(*turned)
    assert names(*written)[0] == "grasp-episodes-1-gate-local"


def test_experiments_that_are_swept_name_themselves() -> None:
    jobs = [
        job(0, experiment_id=name, experiment=name, approvement=profile)
        for name in ("libero", "tabletop")
        for profile in PROFILES
    ]

    assert names(*jobs)[0] == "libero-approvement-standard"
    assert len(set(names(*jobs))) == 4
    assert names(jobs[0], jobs[2]) == ["libero", "tabletop"]


def test_experiments_of_the_same_name_are_told_apart() -> None:
    assert names(job(0, experiment="a"), job(0, experiment="b")) == [
        "grasp-experiment-a",
        "grasp-experiment-b",
    ]


def test_values_that_cannot_name_a_directory_stay_distinct() -> None:
    trees = ("runs/a b", "runs/a:b", "runs/" + "x" * 200, "runs/" + "x" * 201)

    found = names(*(job(0, baseline__tree=tree) for tree in trees))

    assert len(set(found)) == 4
    assert all(len(name) <= 96 and "/" not in name for name in found)
    assert found[0].startswith("grasp-tree-runs-a-b-")


def test_a_job_without_a_generation_is_a_lineage_of_its_own() -> None:
    lineages = group_by_lineage([job(None, approvement=profile) for profile in PROFILES])

    assert [lineage.jobs for lineage in lineages] == [(("standard", None),), ((PROFILES[1], None),)]
