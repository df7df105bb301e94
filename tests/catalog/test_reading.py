"""What a user may write in the three files, and what they are told when it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.catalog.reading import read_catalog
from openeta_exp.errors import CatalogError
from openeta_exp.wire.catalog_files import ScenariosFile
from openeta_exp.wire.catalog_parsing import parse_catalog_file
from tests.catalog.catalogs import BENCH, SCENARIOS, SCENE, TASK, write_catalog


def problems(directory: Path) -> str:
    with pytest.raises(CatalogError) as refused:
        read_catalog(directory)
    return "\n".join(refused.value.problems)


def test_the_documented_catalog_is_read_as_printed() -> None:
    catalog = read_catalog(BENCH)

    assert catalog.scenes[0].external is not None
    assert catalog.scenes[0].external.provider == "my_package.adapter:BenchAdapter"
    assert catalog.tasks[0].instruction == "put the cup on the shelf"
    assert list(catalog.scenario_sets[0].params) == ["cup_x", "cup_y"]
    assert catalog.warnings == ()


def test_every_mistake_of_three_files_is_reported_at_once(tmp_path: Path) -> None:
    write_catalog(
        tmp_path,
        scene={"id": "Toy_World", "engin": "x", "external": {"provider": "no colon"}},
        task={"scene": "toi", "max_steps": 0, "predicat": "x"},
        scenarios={"scene": "toy", "params": {"x": {"range": [1, 0], "steps": 2}}},
    )

    said = problems(tmp_path)

    assert "scenes.yaml: scenes[0].engin = 'x': no such field; did you mean engine?" in said
    assert "scenes.yaml: scenes[0].id = 'Toy_World'" in said
    assert "scenes.yaml: scenes[0].external.provider = 'no colon'" in said
    assert "tasks.yaml: tasks[0].predicat = 'x': no such field; did you mean predicate?" in said
    assert "tasks.yaml: tasks[0].max_steps = 0: must be greater than 0" in said
    assert "scenarios.yaml: scenario_sets[0].params.x" in said
    assert "range is reversed" in said


def test_a_mistake_is_told_once_and_not_again_by_what_follows_from_it(tmp_path: Path) -> None:
    write_catalog(
        tmp_path,
        scene={"engin": "x"},
        task={"max_steps": 0},
        scenarios={"params": {"x": {"range": [0.0, 9.75], "steps": 2}}},
    )
    file = tmp_path / "scenarios.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("9.75", ".nan"), encoding="utf-8")

    assert problems(tmp_path).splitlines() == [
        "scenes.yaml: scenes[0].engin = 'x': no such field; did you mean engine?",
        "tasks.yaml: tasks[0].max_steps = 0: must be greater than 0",
        "scenarios.yaml: scenario_sets[0].params.x.range[1] = nan: must be a finite number",
    ]


def test_a_scenario_set_on_no_scene_is_told_once(tmp_path: Path) -> None:
    write_catalog(tmp_path, scenarios={"scene": "toi"})

    assert problems(tmp_path) == (
        "scenarios.yaml: scenario_sets[0].scene = 'toi': no such scene; did you mean toy?"
    )


def test_references_between_files_name_the_nearest_valid_id(tmp_path: Path) -> None:
    write_catalog(tmp_path, task={"scene": "toi"}, scenarios={"tasks": ["reech"]})

    said = problems(tmp_path)

    assert "tasks.yaml: tasks[0].scene = 'toi': no such scene; did you mean toy?" in said
    assert "scenarios.yaml: scenario_sets[0].tasks[0] = 'reech': no such task" in said


def test_equal_keys_that_disagree_between_ref_and_params_are_refused(tmp_path: Path) -> None:
    external = {"provider": "a:B", "ref": {"suite": "kitchen"}, "params": {"suite": "office"}}
    write_catalog(tmp_path, scene={"external": external})

    assert "external.ref.suite says 'kitchen'" in problems(tmp_path)


def test_a_metric_nobody_produces_is_refused(tmp_path: Path) -> None:
    write_catalog(
        tmp_path,
        scene={"metrics": [{"extractor": "a:b", "produces": ["height"]}]},
        task={"success": {"all_of": [{"metric": "hight", "at_least": 1}]}},
    )

    assert "did you mean height?" in problems(tmp_path)


@pytest.mark.parametrize(
    ("perturbation", "reason"),
    [
        ({"type": "scale_actuator", "target": "m"}, "args.factor is missing"),
        ({"type": "scale_actuator", "target": "m", "args": {"factor": 0}}, "other than 0"),
        ({"type": "scale_actuator", "args": {"factor": 2}}, "target is missing"),
        (
            {"type": "apply_force", "target": "m", "until_step": 5, "args": {"wrench": [0] * 6}},
            "cannot end",
        ),
        ({"type": "displace_body", "target": "m", "args": {"delta": [1]}}, "must be 3 numbers"),
        ({"type": "drop_observation", "target": "a", "until_step": 0}, "until_step must come"),
        ({"type": "drop_observation", "target": "a", "args": {"file": 1}}, "args.file is unknown"),
        ({"type": "drop_observation", "target": "a", "levels": [1]}, "has no level"),
        ({"type": "scale_actuato", "target": "m"}, "did you mean scale_actuator?"),
    ],
)
def test_a_perturbation_that_cannot_work_is_refused_while_planning(
    tmp_path: Path, perturbation: dict[str, object], reason: str
) -> None:
    write_catalog(tmp_path, scenarios={"perturbations": [{"at_step": 0, **perturbation}]})

    assert reason in problems(tmp_path)


@pytest.mark.parametrize(
    ("parameter", "reason"),
    [
        ({}, "use exactly one form"),
        ({"range": [0, 1]}, "use exactly one form"),
        ({"range": [0, 1], "steps": 2, "choices": [1]}, "use exactly one form"),
        ({"value": 1, "range": [0, 1]}, "use exactly one form"),
        ({"range": [0, 1], "samples": 3}, "distribution is missing"),
        ({"range": [0, 1], "samples": 3, "distribution": "normal"}, "needs mean and std"),
        (
            {"range": [0, 1], "samples": 3, "distribution": "uniform", "mean": 0},
            "belong to distribution: normal",
        ),
        ({"range": [0, 1, 2], "steps": 2}, "range"),
        ({"range": [0, 1], "steps": 0}, "must be greater than 0"),
        ({"steps": 2}, "range: [low, high] is missing"),
        ({"choices": []}, "at least 1 item"),
    ],
)
def test_a_parameter_has_exactly_one_form(
    tmp_path: Path, parameter: dict[str, object], reason: str
) -> None:
    write_catalog(tmp_path, scenarios={"params": {"x": parameter}})

    assert reason in problems(tmp_path)


def test_null_is_a_value_and_not_a_missing_form(tmp_path: Path) -> None:
    write_catalog(tmp_path, scenarios={"params": {"x": {"value": None}}})

    assert read_catalog(tmp_path).scenario_sets[0].params["x"].is_constant


def test_files_and_keys_without_effect_are_named_and_tolerated(tmp_path: Path) -> None:
    write_catalog(tmp_path, scene={"resource_shape": [{"vram_per_env_mb": 1}]})
    (tmp_path / "run.yaml").write_text("run: {}", encoding="utf-8")
    catalog_file = json.loads((tmp_path / "tasks.yaml").read_text(encoding="utf-8"))
    catalog_file["apiVersion"] = "refractal.dev/v1alpha1"
    (tmp_path / "tasks.yaml").write_text(json.dumps(catalog_file), encoding="utf-8")

    warnings = read_catalog(tmp_path).warnings

    assert any("resource_shape: has no effect here" in each for each in warnings)
    assert any(each.startswith("run.yaml: ignored") for each in warnings)


def test_a_directory_that_is_none_and_files_that_are_missing_are_user_errors(
    tmp_path: Path,
) -> None:
    assert "there is no such directory" in problems(tmp_path / "nowhere")
    assert problems(tmp_path).count("cannot be read") == 3


def test_an_asset_must_exist_and_stay_inside(tmp_path: Path) -> None:
    write_catalog(tmp_path, scene={"assets": ["meshes/*.stl", "../secret"]})

    said = problems(tmp_path)

    assert "matches no file" in said
    assert "must stay inside" in said


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(st.sampled_from(sorted(SCENARIOS)), _JSON)
def test_any_value_in_any_field_is_either_read_or_explained(field: str, value: object) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenarios.yaml"
        content = {"scenario_sets": [{**SCENARIOS, field: value}]}
        path.write_text(json.dumps(content), encoding="utf-8")
        found: list[str] = []
        parsed = parse_catalog_file(path, ScenariosFile, found)

    assert (parsed is None) == bool(found)
    assert all(each.startswith("scenarios.yaml: ") for each in found)


def test_fixtures_of_these_tests_are_a_valid_catalog(tmp_path: Path) -> None:
    catalog = read_catalog(write_catalog(tmp_path))

    assert [each.id for each in catalog.scenes] == [SCENE["id"]]
    assert [each.id for each in catalog.tasks] == [TASK["id"]]
