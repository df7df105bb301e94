"""What a sweep knows of a job from the experiment's folder, before it is run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.assembly.history import read_lineage
from openeta_exp.assembly.provenance import behaviour
from openeta_exp.assembly.splits import design, read_splits
from openeta_exp.assembly.sweep import AskedJob, is_finished, sweep
from openeta_exp.assembly.world import baseline_tree
from openeta_exp.composition import compose_settings
from openeta_exp.engine.generation import GenerationEngine
from openeta_exp.engine.lineage_plan import LineagePlan
from openeta_exp.errors import SettingsError
from openeta_exp.settings.experiment import ExperimentSettings
from tests.generations import lineage_engine, plan

pytestmark = pytest.mark.anyio

STEPS = (19, 6, 6)


def settings(root: Path, *overrides: str) -> ExperimentSettings:
    return compose_settings(
        [
            "+experiment=tabletop_iterate",
            "experiment_id=exp",
            f"output_root={root}",
            f"lineage.generations={len(STEPS)}",
            *overrides,
        ]
    )


def finished(of: ExperimentSettings) -> list[bool]:
    """Of each generation of the lineage."""
    jobs = [
        AskedJob(settings=of.model_copy(update={"generation": n}), choices={}, arguments=())
        for n in range(len(STEPS))
    ]
    return [is_finished(job) for job in jobs]


async def run_generations(of: ExperimentSettings, *numbers: int) -> None:
    """As processes of a sweep would, in the world of `tests.generations`."""
    planned: LineagePlan = replace(
        plan(generations=len(STEPS), tree=baseline_tree(of)),
        behaviour=behaviour(of),
        design=design(of, read_splits(of)),
    )
    for number in numbers:
        store = FolderExperimentStore(ExperimentLayout.below(of.output_root, "exp"))
        engine: GenerationEngine = lineage_engine(planned, store.journal, close_steps=STEPS)
        await replace(engine, store=store).run_alone(number)
        store.close()


def shortened(folder: Path) -> str:
    """The path of a train manifest with one episode less."""
    episodes = settings(folder).read_manifest().episodes[1:]
    path = folder / "train.json"
    path.write_text(
        json.dumps([{"env_id": spec.env_id, "task": spec.task} for spec in episodes]),
        encoding="utf-8",
    )
    return str(path)


async def test_a_generation_is_finished_once_its_journal_says_so(tmp_path: Path) -> None:
    of = settings(tmp_path)

    before = finished(of)
    await run_generations(of, 0)
    after_one = finished(of)
    await run_generations(of, 1, 2)

    assert before == [False, False, False]
    assert after_one == [True, False, False]
    assert finished(of) == [True, True, True]


async def test_a_lineage_in_one_job_is_finished_with_its_last_generation(tmp_path: Path) -> None:
    of = settings(tmp_path)
    whole = AskedJob(settings=of, choices={}, arguments=())

    await run_generations(of, 0, 1)
    before = is_finished(whole)
    await run_generations(of, 2)

    assert (before, is_finished(whole)) == (False, True)


async def test_a_job_with_other_settings_is_run_so_that_it_says_what_changed(
    tmp_path: Path,
) -> None:
    await run_generations(settings(tmp_path), 0)

    assert not finished(settings(tmp_path, "simulator.image_width=128"))[0]
    assert not finished(settings(tmp_path, "baseline.tree=standard"))[0]
    assert not finished(settings(tmp_path, "manifest.path=" + shortened(tmp_path)))[0]
    assert not finished(settings(tmp_path, "gate.alpha=0.01"))[0]
    assert not finished(settings(tmp_path, "lineage.generations=4"))[0]
    assert not finished(settings(tmp_path, "held_out.path=gone.json"))[0]
    assert finished(settings(tmp_path, "money.experiment_tokens=5"))[0]
    assert finished(settings(tmp_path, "concurrency.episodes=7"))[0]


async def test_what_a_lineage_came_to_is_read_from_its_folder(tmp_path: Path) -> None:
    of = settings(tmp_path)
    await run_generations(of, 0, 1)

    known = read_lineage(of)

    assert list(known.generations) == [0, 1]
    assert len(known.generations[0].promotions) == 1
    assert known.train[1].episode_count == known.generations[1].train_episodes


def test_a_sweep_over_nothing_is_a_mistake_of_the_user() -> None:
    with pytest.raises(SettingsError, match="the sweep has no job"):
        sweep([])
