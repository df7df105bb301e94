"""Manifest files: strict, and every mistake at once with its episode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from openeta_exp.domain.budget import Budget
from openeta_exp.domain.identity import EpisodeId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec, Manifest, Split
from openeta_exp.errors import ManifestError
from openeta_exp.wire.manifest import parse_manifest, read_manifest, render_manifest

ROW: JsonObject = {"env_id": "openeta/x-v0", "task": "pick it up"}

# What the documentation of the original prints.
PRINTED = """{
  "episodes": [
    {
      "episode_id": "libero-object-0",
      "env_id": "openeta/libero_libero_object_task0-v0",
      "task": "pick up the alphabet soup and place it in the basket",
      "seed": 0,
      "max_turns": 100,
      "max_tool_calls": 200,
      "timeout_s": 3600,
      "max_total_tokens": 5000000,
      "metadata": {"suite": "libero_object"}
    }
  ]
}"""


def problems(value: JsonValue) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(value, source="m.json")
    return caught.value.problems


def written(folder: Path, text: str, *, name: str = "m.json") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_printed_manifest_is_read(tmp_path: Path) -> None:
    (spec,) = read_manifest(written(tmp_path, PRINTED)).episodes

    assert spec == EpisodeSpec(
        episode_id=EpisodeId("libero-object-0"),
        env_id="openeta/libero_libero_object_task0-v0",
        task="pick up the alphabet soup and place it in the basket",
        seed=0,
        budget=Budget(
            max_turns=100, max_tool_calls=200, timeout_s=3600, max_total_tokens=5_000_000
        ),
        tags={"suite": "libero_object"},
    )


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("name", ["m.json", "m.yaml", "m.yml", "m"])
def test_a_list_and_an_object_are_read_from_json_and_yaml(
    tmp_path: Path, name: str, wrapped: bool
) -> None:
    value: JsonValue = {"episodes": [ROW, ROW]} if wrapped else [ROW, ROW]
    text = json.dumps(value) if name == "m.json" else yaml.safe_dump(value)

    manifest = read_manifest(written(tmp_path, text, name=name))

    assert [spec.episode_id for spec in manifest.episodes] == ["episode-000", "episode-001"]
    assert manifest.episodes[0].budget == Budget()
    assert manifest.episodes[0].seed == 0


def test_defaults_hold_for_every_row_that_does_not_say_otherwise() -> None:
    manifest = parse_manifest(
        {
            "split": "held-out",
            "defaults": {"env_id": "openeta/x-v0", "max_turns": 5},
            "episodes": [{"task": "a"}, {"task": "b", "max_turns": 6}],
        },
        source="m",
    )

    assert [spec.budget.max_turns for spec in manifest.episodes] == [5, 6]
    assert manifest.split is Split.HELD_OUT


def test_seed_and_seeds_together_are_reported_beside_every_other_mistake() -> None:
    found = problems([{**ROW, "seed": 3, "seeds": {"first": 0, "last": 4}, "max_turns": 0}])

    assert found == (
        "m.json: episodes[0] (episode-000): max_turns = 0: must be at least 1",
        "m.json: episodes[0] (episode-000): seed = 3: give seed or seeds, not both; remove one",
    )


def test_five_mistakes_in_one_file_are_reported_together_with_their_episodes() -> None:
    found = problems(
        [
            {**ROW, "max_turn": 3},
            {**ROW, "episode_id": "second", "seed": True, "timeout_s": float("nan")},
            {"env_id": "openeta/x-v0", "episode_id": "third"},
            "not a row",
        ]
    )

    assert found == (
        "m.json: episodes[0] (episode-000): max_turn = 3: no such field; did you mean max_turns?",
        "m.json: episodes[1] (second): seed = true: must be a whole number, without quotes",
        "m.json: episodes[1] (second): timeout_s = nan: must be a finite number",
        "m.json: episodes[2] (third): task: is missing; give it a value",
        "m.json: episodes[3] = 'not a row': must be an object of episode fields",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", 1.0),
        ("seed", "1"),
        ("seed", -1),
        ("seed", 2**32),
        ("max_turns", 0),
        ("max_turns", 1.9),
        ("max_turns", True),
        ("max_turns", 10**400),
        ("max_tool_calls", "5"),
        ("max_tool_calls", None),
        ("timeout_s", 0),
        ("timeout_s", float("inf")),
        ("timeout_s", True),
        ("timeout_s", "60"),
        ("max_total_tokens", 0),
        ("metadata", []),
        ("metadata", "x"),
        ("metadata", None),
        ("metadata", {"x": {"y": [float("nan")]}}),
        ("env_id", "  "),
        ("task", ""),
        ("task", 3),
        ("episode_id", 3),
        ("scenario", 1),
        ("repeat", -1),
    ],
)
def test_a_value_the_original_let_pass_is_refused(field: str, value: JsonValue) -> None:
    found = problems([{**ROW, field: value}])

    assert len(found) == 1
    assert f"episodes[0] (episode-000): {field}" in found[0]


@pytest.mark.parametrize(
    ("key", "setting"),
    [
        ("on_need_human", "on_need_human=fail"),
        ("workspace_root", "output_root=DIR"),
        ("source_skills_root", "baseline.tree=DIR"),
        ("resume_existing", "fresh=true"),
        ("require_official_reward", "checker"),
    ],
)
def test_metadata_cannot_steer_the_host_and_the_setting_is_named(key: str, setting: str) -> None:
    (found,) = problems([{**ROW, "metadata": {key: "x"}}])

    assert f"metadata.{key}: metadata is inert" in found
    assert setting in found


def test_an_environment_has_no_second_spelling() -> None:
    padded = "openeta/libero_libero_object_task00-v0"

    assert problems({"defaults": {"env_id": padded}, "episodes": [ROW, {**ROW, "env_id": padded}]})[
        -1
    ] == (
        f"m.json: episodes[1] (episode-001): env_id = '{padded}': must be written "
        "openeta/libero_libero_object_task0-v0"
    )


def test_ids_must_differ_including_generated_ones() -> None:
    (found,) = problems([ROW, {**ROW, "episode_id": " episode-000 "}])

    assert found == (
        "m.json: episodes[0], episodes[1] (episode-000): episode_id is used more than once; "
        "give each its own"
    )


@pytest.mark.parametrize("empty", [[], {"episodes": []}, {}, {"episodes": None}])
def test_a_manifest_without_episodes_is_refused(empty: JsonValue) -> None:
    assert problems(empty) == ("m.json: episodes: there are none; list at least one",)


@pytest.mark.parametrize("value", [None, 3, "episodes", True])
def test_what_is_neither_list_nor_object_is_refused(value: JsonValue) -> None:
    assert problems(value) == ("m.json: must be a list of episodes, or an object with `episodes`",)


def test_fields_of_the_file_are_checked_too() -> None:
    found = problems(
        {
            "episode": [],
            "split": "heldout",
            "schema_version": "v0",
            "defaults": {"max_turn": 3, "episode_id": "x"},
            "episodes": [ROW],
        }
    )

    assert found == (
        "m.json: episode: no such field; did you mean episodes?",
        "m.json: schema_version = 'v0': must be openeta_exp.manifest.v1",
        "m.json: split = 'heldout': no such split; did you mean held-out?",
        "m.json: defaults.episode_id: every episode needs an id of its own; remove it",
        "m.json: defaults.max_turn = 3: no such field; did you mean max_turns?",
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("m.json", "", "is empty"),
        ("m.yaml", " \n\n", "is empty"),
        ("m.json", '[{"task": "a", "task": "b", "env_id": "x"}]', "'task' is given more than once"),
        ("m.yaml", "- {task: a, task: b, env_id: x}", "'task' is given more than once (line 1)"),
        ("m.json", "[1,", "is not JSON"),
        ("m.yaml", "[1,", "is not YAML"),
        ("m.yaml", "a: !!python/object:os.system x", "is not YAML"),
        ("m.yaml", "- task: 2026-12-01", "2026-12-01 is no JSON value"),
        ("m.yaml", "- 3: x", "the key 3 must be a text"),
        ("m.yaml", "a: &a [*a]", "contains itself"),
        ("m.json", "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_text_that_cannot_be_read_says_why(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = written(tmp_path, text, name=name)

    with pytest.raises(ManifestError) as caught:
        read_manifest(path)

    assert caught.value.problems[0].startswith(f"{path}: ")
    assert said in caught.value.problems[0]


def test_a_file_that_is_not_there_or_not_text_says_so(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot be read: No such file"):
        read_manifest(tmp_path / "none.json")
    with pytest.raises(ManifestError, match="cannot be read"):
        read_manifest(tmp_path)
    (tmp_path / "b.json").write_bytes(b"\xff\xfe[")
    with pytest.raises(ManifestError, match="not UTF-8"):
        read_manifest(tmp_path / "b.json")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TAGS: st.SearchStrategy[JsonObject] = st.dictionaries(
    st.sampled_from(["suite", "note", "split", "ä"]),
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT | st.lists(st.floats(-1, 1), max_size=2),
    max_size=2,
)
WORDS = st.text("abc -ü", min_size=1, max_size=9).map(str.strip).filter(bool)
SPECS = st.builds(
    EpisodeSpec,
    episode_id=WORDS.map(EpisodeId),
    env_id=WORDS,
    task=WORDS,
    seed=st.integers(0, 2**32 - 1),
    repeat=st.integers(0, 5),
    budget=st.builds(
        Budget,
        max_turns=st.integers(1, 1000),
        max_tool_calls=st.integers(1, 1000),
        timeout_s=st.floats(0.001, 1e7),
        max_total_tokens=st.integers(1, 10**9),
    ),
    scenario=TAGS,
    tags=TAGS,
)
MANIFESTS = st.builds(
    Manifest,
    episodes=st.lists(SPECS, min_size=1, max_size=4, unique_by=lambda spec: spec.episode_id).map(
        tuple
    ),
    split=st.none() | st.sampled_from(Split),
)


@given(MANIFESTS)
def test_a_rendered_manifest_is_read_back_unchanged(manifest: Manifest) -> None:
    text = json.dumps(render_manifest(manifest))

    assert parse_manifest(json.loads(text), source="m") == manifest


FIELDS = st.sampled_from(["task", "env_id", "episode_id", "seed", "max_turns", "metadata", "x"])


@given(
    VALUES
    | st.lists(st.dictionaries(FIELDS, VALUES, max_size=5), max_size=3)
    | st.fixed_dictionaries({"episodes": VALUES}, optional={"defaults": VALUES, "split": VALUES})
)
def test_any_value_is_a_manifest_or_a_list_of_reasons(value: JsonValue) -> None:
    try:
        manifest = parse_manifest(value, source="m")
    except ManifestError as error:
        reasons = error.problems
    else:
        reasons = ("read",)
        assert parse_manifest(render_manifest(manifest), source="m") == manifest
    assert reasons
    assert all("\n" not in reason for reason in reasons)


def test_rows_that_ask_for_the_same_episode_are_repeats_of_it() -> None:
    row: JsonObject = {"task": "t", "env_id": "e"}
    rows: list[JsonValue] = [
        row,
        {**row, "metadata": {"note": "a label"}},
        {**row, "seed": 1},
        {**row, "repeat": 2},
        row,
        {**row, "max_turns": 3},
    ]

    manifest = parse_manifest(rows, "m.json")

    assert [spec.repeat for spec in manifest.episodes] == [0, 1, 0, 2, 3, 0]
    assert len({spec.content_digest for spec in manifest.episodes}) == len(rows)
    assert parse_manifest(render_manifest(manifest), "m.json") == manifest
