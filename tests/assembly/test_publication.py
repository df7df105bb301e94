"""The shared registry from the command line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import openeta_exp
from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.assembly import execute
from openeta_exp.assembly.publication import open_registry, publishing_registry
from openeta_exp.assembly.world import baseline_tree
from openeta_exp.composition import compose_settings
from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.errors import ArtifactError, SettingsError
from openeta_exp.settings.experiment import ExperimentSettings
from tests.publications import FIRST, SECOND, publication


def settings(root: Path, *overrides: str) -> ExperimentSettings:
    return compose_settings([f"output_root={root}", "+experiment=tabletop_iterate", *overrides])


def publish_both(root: Path) -> None:
    registry = open_registry(settings(root))
    registry.publish(publication(FIRST), at_s=1.0)
    registry.publish(publication(SECOND, over=FIRST), at_s=2.0)


def test_a_strategy_is_rolled_back_by_name_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_both(tmp_path)
    asked = settings(tmp_path, "command=rollback", f"strategy={SECOND.name}", "reason=drops cups")

    assert execute(asked) == 0

    assert "is the validated grip again" in capsys.readouterr().out
    registry = open_registry(asked)
    assert registry.validated().artifacts == (FIRST,)
    assert registry.history()[-1].reason == "drops cups"


def test_rolling_back_what_nobody_published_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    publish_both(tmp_path)
    asked = settings(tmp_path, "command=rollback", "strategy=nothing", "reason=why")

    with pytest.raises(ArtifactError, match=SECOND.name):
        execute(asked)


def test_a_folder_that_is_no_registry_does_not_become_one_by_a_rollback(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    asked = settings(
        tmp_path,
        *("command=rollback", "strategy=x", "reason=why"),
        f"registry_root={tmp_path / 'notes'}",
    )

    with pytest.raises(SettingsError, match=r"notes: there is no registry .* check registry_root"):
        execute(asked)
    assert list((tmp_path / "notes").iterdir()) == []


def test_a_rollback_without_a_reason_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="reason"):
        settings(tmp_path, "command=rollback", "strategy=x")


def test_an_experiment_starts_from_what_is_validated_with_the_standard_skills(
    tmp_path: Path,
) -> None:
    publish_both(tmp_path)
    tree = baseline_tree(settings(tmp_path, "baseline.tree=registry"))

    assert tree.of(ArtifactKind.GRASP_STRATEGY) == (SECOND,)
    standard = baseline_tree(settings(tmp_path, "baseline.tree=standard"))
    assert tree.of(ArtifactKind.SKILL) == standard.of(ArtifactKind.SKILL)


def test_an_experiment_that_has_begun_keeps_what_it_began_with(tmp_path: Path) -> None:
    publish_both(tmp_path)
    asked = settings(tmp_path, "baseline.tree=registry")
    tree = baseline_tree(asked)
    store = FolderExperimentStore(ExperimentLayout.below(tmp_path, asked.experiment_id))
    record = GenerationRecord(
        experiment_id=asked.experiment_id,
        generation=0,
        baseline_digest=tree.content_digest,
        behaviour={},
    )
    store.begin_generation(record, tree)
    store.close()
    open_registry(asked).roll_back(
        ArtifactKind.GRASP_STRATEGY, SECOND.name, reason="drops cups", at_s=3.0
    )

    assert baseline_tree(asked) == tree
    fresh = settings(tmp_path, "baseline.tree=registry", "experiment_id=another")
    assert baseline_tree(fresh).of(ArtifactKind.GRASP_STRATEGY) == (FIRST,)


def test_a_registry_without_anything_validated_is_nothing_to_start_from(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has no validated grasp strategy"):
        baseline_tree(settings(tmp_path, "baseline.tree=registry"))


@pytest.mark.parametrize(
    ("overrides", "publishes"),
    [
        ((), True),
        (("publish_grasp_strategies=false",), False),
        (("lineage.tier=local",), False),
    ],
)
def test_publishing_is_on_unless_it_is_switched_off_or_the_tier_is_local(
    tmp_path: Path, overrides: tuple[str, ...], publishes: bool
) -> None:
    assert (publishing_registry(settings(tmp_path, *overrides)) is not None) is publishes
    assert (tmp_path / "registry").exists() is publishes


def test_the_registry_may_be_shared_by_several_output_folders(tmp_path: Path) -> None:
    shared = f"registry_root={tmp_path / 'shared'}"
    open_registry(settings(tmp_path / "a", shared)).publish(publication(FIRST), at_s=1.0)

    tree = baseline_tree(settings(tmp_path / "b", shared, "baseline.tree=registry"))

    assert tree.of(ArtifactKind.GRASP_STRATEGY) == (FIRST,)


def test_nothing_is_ever_published_into_the_package(tmp_path: Path) -> None:
    package = Path(openeta_exp.__file__).parent
    inside = package / "embedded" / "baselines" / "standard"
    with pytest.raises(SettingsError, match="lies within the package"):
        open_registry(settings(tmp_path, f"registry_root={inside}"))

    def state() -> str:
        files = sorted(each for each in package.rglob("*.json") if each.is_file())
        return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()

    before = state()
    publish_both(tmp_path)
    assert state() == before
