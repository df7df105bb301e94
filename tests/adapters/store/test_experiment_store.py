"""What the folder of an experiment refuses to go on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.errors import SettingsError
from tests.generations import strategy, tree_of

TREE = tree_of(strategy(6))
DESIGN: JsonObject = {
    "held_out": {"episodes": 400, "digest": "aaa"},
    "gate": {"kind": "sequential", "alpha": 0.05},
}


def begin(
    folder: Path,
    *,
    tree: ArtifactTree = TREE,
    behaviour: JsonObject | None = None,
    design: JsonObject | None = None,
) -> None:
    """As a command does when it starts."""
    store = FolderExperimentStore(ExperimentLayout.below(folder, "exp"))
    record = GenerationRecord(
        experiment_id="exp",
        generation=0,
        baseline_digest=tree.content_digest,
        behaviour=behaviour or {"planner": {"model": "scripted-planner"}},
        design=design or {},
    )
    try:
        store.begin_generation(record, tree)
    finally:
        store.close()


def refusal(
    folder: Path, *, behaviour: JsonObject | None = None, design: JsonObject
) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        begin(folder, behaviour=behaviour, design=design)
    return caught.value.problems


def test_the_same_facts_go_on(tmp_path: Path) -> None:
    begin(tmp_path, design=DESIGN)
    begin(tmp_path, design=DESIGN)


def test_everything_that_changed_is_shown_at_once(tmp_path: Path) -> None:
    begin(tmp_path, design=DESIGN)

    problems = refusal(
        tmp_path,
        behaviour={"planner": {"model": "another"}},
        design={
            "held_out": {"episodes": 399, "digest": "bbb"},
            "gate": {"kind": "fixed", "alpha": 0.05},
        },
    )

    assert problems == (
        "experiment_id = exp: has begun with other settings; use another experiment_id, or go "
        "back to them:",
        "  planner.model: 'scripted-planner' became 'another'",
        "  gate.kind: 'sequential' became 'fixed'",
        "  held_out.digest: 'aaa' became 'bbb'",
        "  held_out.episodes: 400 became 399",
    )


def test_an_experiment_that_was_only_run_may_be_iterated_and_keeps_to_that_design(
    tmp_path: Path,
) -> None:
    begin(tmp_path)
    begin(tmp_path, design=DESIGN)
    begin(tmp_path)  # `command=run` again: it judges nothing.

    assert "  gate.kind: 'sequential' became 'fixed'" in refusal(
        tmp_path, design={**DESIGN, "gate": {"kind": "fixed", "alpha": 0.05}}
    )


def test_a_changed_baseline_is_refused(tmp_path: Path) -> None:
    begin(tmp_path)

    other = tree_of(strategy(7))
    with pytest.raises(SettingsError, match=r"baseline: .* became"):
        begin(tmp_path, tree=other)
