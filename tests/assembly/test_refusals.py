"""What an experiment id refuses to go on with is refused before a simulator is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from openeta_exp.assembly import iterate as iterating
from openeta_exp.assembly import run as running
from openeta_exp.assembly import world
from openeta_exp.assembly.splits import read_splits
from openeta_exp.assembly.world import baseline_tree
from openeta_exp.composition import compose_settings
from openeta_exp.domain.event import GenerationEnded, GenerationStarted
from openeta_exp.domain.generation import GenerationResult
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.errors import SettingsError
from openeta_exp.settings.experiment import ExperimentSettings


class StartedError(Exception):
    """A simulator would have been started."""


def starting(*_: object, **__: object) -> None:
    raise StartedError


@pytest.fixture(autouse=True)
def no_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (iterating, running):
        monkeypatch.setattr(module, "open_world", starting)


def settings(folder: Path, *overrides: str) -> ExperimentSettings:
    return compose_settings(
        ["+experiment=tabletop_iterate", f"output_root={folder}", "tracking=none", *overrides]
    )


def attempt(command: Callable[[ExperimentSettings], int], asked: ExperimentSettings) -> str:
    """How far the command comes, which is never beyond starting a simulator."""
    try:
        command(asked)
    except SettingsError as refused:
        return str(refused)
    except StartedError:
        return "started"
    raise AssertionError("it needs a simulator")


def begin(asked: ExperimentSettings, *, design: bool) -> None:
    """As if the command had begun the first generation and was killed."""
    tree = baseline_tree(asked)
    plan = iterating.plan_without_world(asked, read_splits(asked), tree)
    record = plan.beginning(0, tree)
    with running.experiment_store(asked) as store:
        store.begin_generation(
            record if design else GenerationRecord(**{**dict(record), "design": {}}), tree
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [("gate.n_max=50", "gate.n_max"), ("planner.validation_retries=0", "validation_retries")],
)
def test_a_lineage_with_another_design_or_other_settings_is_refused(
    change: str, said: str, tmp_path: Path
) -> None:
    begin(settings(tmp_path), design=True)

    assert attempt(iterating.iterate, settings(tmp_path)) == "started"
    assert said in attempt(iterating.iterate, settings(tmp_path, change))


def test_a_lineage_whose_later_generation_was_tampered_with_is_refused(tmp_path: Path) -> None:
    asked = settings(tmp_path)
    begin(asked, design=True)
    tree = baseline_tree(asked)
    plan = iterating.plan_without_world(asked, read_splits(asked), tree)
    ended = GenerationResult(
        experiment_id=asked.experiment_id,
        generation=0,
        baseline_digest=tree.content_digest,
        train_episodes=1,
        train_successes=0,
        lanes=(),
        next_baseline_digest=tree.content_digest,
    )
    with running.experiment_store(asked) as store:
        store.journal.append(
            GenerationStarted(
                experiment_id=asked.experiment_id,
                generation=0,
                baseline=tree,
                behaviour=plan.behaviour,
                design=plan.design,
                at_s=1.0,
            )
        )
        store.journal.append(GenerationEnded(result=ended, at_s=2.0))
        store.begin_generation(plan.beginning(1, tree), tree)

    assert attempt(iterating.iterate, asked) == "started"
    skills = tmp_path / "experiments" / asked.experiment_id / "generations/001/baseline_skills"
    next(skills.iterdir()).unlink()
    assert "generations/001: the files of the baseline were changed" in attempt(
        iterating.iterate, asked
    )
    alone = settings(tmp_path, "generation=1")
    assert "generations/001: the files of the baseline" in attempt(iterating.iterate, alone)


@pytest.mark.anyio
async def test_a_key_that_cannot_be_sent_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "embedded_host", starting)
    monkeypatch.setenv("OPENETA_LLM_API_KEY", "two words")
    asked = settings(
        tmp_path, "provider=openai", "provider.base_url=http://127.0.0.1:9/v1", "provider.model=m"
    )

    with pytest.raises(SettingsError, match=r"the API key for http://127\.0\.0\.1:9/v1 holds"):
        async with world.open_world(asked, asked.read_manifest()):
            raise StartedError


def test_a_batch_with_other_settings_is_refused(tmp_path: Path) -> None:
    begin(settings(tmp_path), design=False)

    assert attempt(running.run, settings(tmp_path)) == "started"
    assert "validation_retries" in attempt(
        running.run, settings(tmp_path, "planner.validation_retries=0")
    )
