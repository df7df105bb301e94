"""A catalog becomes the manifest the rest of the product runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openeta_exp.catalog.expansion import Tier, expand
from openeta_exp.catalog.identity import scenario_digest, task_digest
from openeta_exp.catalog.reading import read_catalog
from openeta_exp.errors import CatalogError
from tests.catalog.catalogs import BENCH, toy, toy_catalog

_GENERATORS = "tests.catalog.toy_generators"


def test_the_documented_catalog_has_36_scenarios_and_imports_no_simulator() -> None:
    expansion = expand(read_catalog(BENCH), repeats=2)

    assert len(expansion.manifest.episodes) == 72
    assert {spec.budget.max_turns for spec in expansion.manifest.episodes} == {300}
    assert expansion.manifest.episodes[1].repeat == 1
    assert expansion.manifest.episodes[0].scenario == {"cup_x": -0.15, "cup_y": 0.3}
    assert not {"bench_sim", "my_package", "my_package.adapter"} & set(sys.modules)


def test_tiers_are_nested_and_have_the_reference_sizes() -> None:
    catalog = read_catalog(BENCH)
    sizes, previous = [], set[str]()
    for tier in (Tier.SMOKE, Tier.REGRESSION, Tier.FULL):
        digests = {row.scenario_digest for row in expand(catalog, tier=tier).rows}
        assert previous <= digests
        sizes.append(len(digests))
        previous = set(digests)

    assert sizes == [5, 20, 36]


def test_digests_equal_the_reference_vectors() -> None:
    catalog = read_catalog(BENCH)

    assert scenario_digest({"cup_x": -0.15, "cup_y": 0.3}) == (
        "bdc214e79116d199588feba62760704da71d2e6230e658b37348d2ad2e897399"
    )
    assert scenario_digest({"friction": 1}).startswith("807684ed71e29")
    assert scenario_digest({"friction": 1.0}).startswith("679edacff589a")
    assert task_digest(catalog.tasks[0], catalog.scenes[0]) == (
        "bad9c6db9ad92052c04db6385420351b9f94ec983bdf3191e53c79de52a930f5"
    )


def test_names_are_free_and_content_is_not(tmp_path: Path) -> None:
    def digests(name: str, **changes: object) -> list[str]:
        expansion = toy(tmp_path / name, **changes)
        return [spec.content_digest for spec in expansion.manifest.episodes]

    plain = digests("plain")
    renamed = digests(
        "renamed",
        scene={"id": "world", "description": "another"},
        task={"id": "go", "scene": "world", "description": "another"},
        scenarios={"id": "places", "scene": "world"},
    )

    assert renamed == plain
    assert digests("steps", task={"max_steps": 41}) != plain
    assert digests("engine", scene={"engine_version": "2"}) != plain
    assert digests("params", params={"camera": "top"}) != plain
    assert digests("class", provider="Forgiving") != plain


def test_editing_the_adapter_or_what_it_imports_changes_the_identity(tmp_path: Path) -> None:
    package = tmp_path / "own_adapter_package"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "adapter.py").write_text("from . import physics\nclass A: pass\n", encoding="utf-8")
    (package / "physics.py").write_text("GRAVITY = 9.81\n", encoding="utf-8")
    (package / "unrelated.py").write_text("X = 1\n", encoding="utf-8")
    scene = {"external": {"provider": "own_adapter_package.adapter:A"}}

    def first() -> str:
        return toy(tmp_path, scene=scene).manifest.episodes[0].content_digest

    before = first()
    (package / "unrelated.py").write_text("X = 2\n", encoding="utf-8")
    assert first() == before
    (package / "physics.py").write_text("GRAVITY = 1.62\n", encoding="utf-8")
    assert first() != before


def test_planning_works_without_the_adapter(tmp_path: Path) -> None:
    expansion = toy(tmp_path, scene={"external": {"provider": "not_installed_anywhere:A"}})

    assert len(expansion.manifest.episodes) == 6


def test_a_generator_of_the_users_own_is_called_with_params_and_seed(tmp_path: Path) -> None:
    expansion = toy(
        tmp_path, scenarios={"generator": f"{_GENERATORS}:diagonal", "generator_seed": 5}
    )

    assert [row.params for row in expansion.rows] == [
        {"x": 5.0, "y": 5.0},
        {"x": 6.0, "y": 6.0},
        {"x": 7.0, "y": 7.0},
    ]


@pytest.mark.parametrize(
    ("scenarios", "reason"),
    [
        ({"generator": f"{_GENERATORS}:moody"}, "two different lists for one seed"),
        ({"generator": f"{_GENERATORS}:infinite"}, "no finite JSON value"),
        ({"generator": f"{_GENERATORS}:broken"}, "ZeroDivisionError: oops"),
        ({"generator": f"{_GENERATORS}:infinit"}, "has no infinit; did you mean infinite?"),
        (
            {"generator": "refractal.generators:linspace_gird"},
            "refractal.generators has no linspace_gird; did you mean linspace_grid?",
        ),
        ({"generator": "absent_module:generator"}, "cannot be imported"),
        ({"filter": f"{_GENERATORS}:nothing"}, "keeps none of 6 scenarios"),
    ],
)
def test_a_generator_or_filter_that_cannot_be_used_is_a_user_error(
    tmp_path: Path, scenarios: dict[str, object], reason: str
) -> None:
    with pytest.raises(CatalogError, match=reason):
        toy(tmp_path, scenarios=scenarios)


def test_a_filter_works_together_with_perturbations(tmp_path: Path) -> None:
    perturbation = {
        "type": "scale_actuator",
        "target": "motor",
        "at_step": 0,
        "args": {"factor": 0.5},
    }
    expansion = toy(
        tmp_path,
        scenarios={"filter": f"{_GENERATORS}:right_half", "perturbations": [perturbation]},
    )

    assert len(expansion.rows) == 4
    assert all(row.scenario_digest != row.base_scenario_digest for row in expansion.rows)


def test_equal_scenarios_run_once_and_the_user_is_told(tmp_path: Path) -> None:
    expansion = toy(tmp_path, scenarios={"generator": f"{_GENERATORS}:doubled"})

    assert [row.params["x"] for row in expansion.rows] == [1.0, 1]
    assert any("1 scenario occurs twice and runs once" in warning for warning in expansion.warnings)
    assert any("1 and 1.0 are two scenarios" in warning for warning in expansion.warnings)


def test_levels_multiply_the_scenarios_and_scale_the_effect(tmp_path: Path) -> None:
    sweep = {
        "type": "apply_force",
        "target": "point",
        "at_step": 1,
        "args": {"wrench": [1, 0, 0, 0, 0, 0]},
        "levels": [0, 0.5, 1],
    }
    expansion = toy(tmp_path, scenarios={"perturbations": [sweep]})

    assert len(expansion.rows) == 18
    assert {row.level for row in expansion.rows} == {0.0, 0.5, 1.0}
    wrenches = [row.perturbations[0]["args"] for row in expansion.rows[:3]]
    assert wrenches[1] == {"wrench": [0.5, 0.0, 0.0, 0.0, 0.0, 0.0]}
    assert len({row.base_scenario_digest for row in expansion.rows}) == 6


def test_an_unknown_scenario_set_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="did you mean starts"):
        expand(toy_catalog(tmp_path), scenario_sets=["start"])


def test_every_episode_id_names_a_directory() -> None:
    from openeta_exp.domain.identity import check_path_component

    expansion = expand(read_catalog(BENCH), repeats=12)

    for spec in expansion.manifest.episodes:
        check_path_component(spec.episode_id)
