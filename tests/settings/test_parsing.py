"""Settings become typed once, and every mistake is reported at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.embedded.models.registry import MODELS
from openeta_exp.errors import ManifestError, SettingsError
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.parsing import parse_settings
from openeta_exp.wire.scripted_models import SCRIPTED_MODELS

ROW: JsonObject = {"episode_id": "a", "env_id": "openeta/x-v0", "task": "pick it up"}


def plain(**fields: JsonValue) -> JsonObject:
    return {"manifest": {"episodes": [ROW]}, **fields}


def problems(fields: JsonObject) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        parse_settings(fields)
    return caught.value.problems


def test_everything_but_the_manifest_has_a_default() -> None:
    settings = parse_settings(plain())

    assert settings.command.kind == "run"
    assert settings.concurrency.episodes == 10
    assert settings.concurrency.provider == 2
    assert settings.concurrency.provider_queue_timeout_s == 180
    assert settings.output_root == Path("outputs")


def test_five_mistakes_are_reported_together_with_field_value_and_fix() -> None:
    found = problems(
        plain(
            concurrency={"episods": 3, "provider": True, "episodes": 33},
            simulator={"kind": "embeded"},
            experiment_id="a/b",
        )
    )

    assert len(found) == 5
    assert "settings: concurrency.episods = 3: no such field; did you mean episodes?" in found
    assert "settings: concurrency.provider = true: must be a whole number, without quotes" in found
    assert "settings: concurrency.episodes = 33: must be at most 32" in found
    assert "settings: simulator.kind = 'embeded': no such choice; did you mean embedded?" in found
    assert any("experiment_id = 'a/b'" in each for each in found)


def test_rules_across_sections_are_reported_next_to_mistakes_within_them() -> None:
    found = problems(
        plain(
            simulator={"kind": "mcp", "url": "http://127.0.0.1:1/mcp"},
            perception={"kind": "embedded"},
            fresh="yes",
        )
    )

    assert found[0] == "settings: fresh = 'yes': must be true or false"
    assert found[1].startswith("settings: perception.kind = 'embedded': knows only what")


@pytest.mark.parametrize("line", ["nonsense", "rate_limit@x", "latency=-1", "seed=1.5"])
def test_a_faults_line_that_cannot_be_read_is_refused_before_anything_is_started(
    line: str,
) -> None:
    found = problems(plain(provider={"kind": "embedded", "faults": line}))

    assert found[0].startswith(f"settings: provider.faults = {line!r}: {line!r}: ")


def test_an_embedded_model_that_does_not_exist_is_refused_with_the_nearest_name() -> None:
    found = problems(
        plain(
            provider={
                "kind": "embedded",
                "model": "scripted-planer",
                "role_models": {"guidance_agent": "gpt"},
            }
        )
    )

    role, planner = found
    assert planner.startswith(
        "settings: provider.model = 'scripted-planer': is no embedded model; did you mean "
        "scripted-planner? use one of scripted-planner, "
    )
    assert role.startswith("settings: provider.role_models.guidance_agent = 'gpt': is no embedded")


def test_the_embedded_models_are_those_that_are_served() -> None:
    assert set(SCRIPTED_MODELS) == set(MODELS)


@pytest.mark.parametrize("command", ["iterate", "compare"])
def test_what_is_judged_does_not_wait_for_a_person(command: str) -> None:
    found = problems(plain(command={"kind": command}, on_need_human="pause"))

    assert any(
        each.startswith(f"settings: on_need_human = 'pause': command={command} judges")
        for each in found
    )


def test_a_lineage_is_not_started_over_under_its_own_name() -> None:
    [problem] = problems(plain(command={"kind": "iterate"}, fresh=True))

    assert problem == (
        "settings: fresh = true: command=iterate goes on from its journal and runs nothing twice; "
        "use another experiment_id to start over"
    )
    assert parse_settings(plain(command={"kind": "iterate"})).fresh is False
    assert parse_settings(plain(fresh=True)).fresh is True


def test_a_rule_across_sections_holds_for_settings_made_in_code_too() -> None:
    settings = parse_settings(plain())

    with pytest.raises(ValueError, match="perception needs a camera"):
        ExperimentSettings(
            manifest=settings.manifest,
            simulator=settings.simulator.model_copy(update={"cameras": ()}),
        )


@pytest.mark.parametrize("value", ["3", True, 3.0, 3.5, None, float("nan"), [3]])
def test_a_count_is_only_a_whole_number(value: JsonValue) -> None:
    assert "concurrency.episodes" in problems(plain(concurrency={"episodes": value}))[0]


@pytest.mark.parametrize("value", ["1", True, float("nan"), float("inf"), 0, -1])
def test_a_duration_is_a_positive_finite_number(value: JsonValue) -> None:
    fields = plain(concurrency={"provider_queue_timeout_s": value})

    assert "concurrency.provider_queue_timeout_s" in problems(fields)[0]


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@host/mcp",
        "http://hunter2@host/mcp",
        "http://host/mcp?api_key=hunter2",
        "http://host/mcp?x=1&token=hunter2",
    ],
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(url: str) -> None:
    found = problems(plain(simulator={"kind": "mcp", "url": url}, perception={"kind": "none"}))

    assert "put secrets into the environment" in found[0]
    assert "hunter2" not in found[0]


@pytest.mark.parametrize("url", ["host:80", "ftp://host", "http://", "http://a b/", "http://h:x"])
def test_what_is_no_http_address_is_refused(url: str) -> None:
    found = problems(plain(simulator={"kind": "mcp", "url": url}, perception={"kind": "none"}))

    assert "address" in found[0]


def test_a_key_in_a_file_is_refused_without_repeating_it() -> None:
    found = problems(
        plain(
            provider={
                "kind": "openai",
                "base_url": "http://127.0.0.1/v1",
                "model": "m",
                "api_key": "sk-hunter2",
            }
        )
    )

    assert found == (
        "settings: provider.api_key = ***: no file or override may hold a secret; "
        "put it into the environment",
    )


def test_a_key_given_as_the_name_of_its_variable_is_refused() -> None:
    endpoint: JsonObject = {"base_url": "http://127.0.0.1/v1", "model": "m"}
    found = problems(plain(provider={"kind": "openai", **endpoint, "api_key_env": "sk-1-2"}))

    assert "never the key itself" in found[0]


def test_the_origin_of_a_field_is_asked_by_its_path_in_conf() -> None:
    asked: list[Sequence[str]] = []

    def origin(path: Sequence[str]) -> str:
        asked.append(path)
        return "conf/simulator/embedded.yaml"

    with pytest.raises(SettingsError) as caught:
        parse_settings(plain(simulator={"kind": "embedded", "quality": "best"}), origin=origin)

    assert asked == [("simulator", "quality")]
    assert str(caught.value).startswith("conf/simulator/embedded.yaml: simulator.quality = 'best'")


def test_a_selection_keeps_the_order_it_was_asked_in() -> None:
    rows: list[JsonValue] = [{**ROW, "episode_id": name} for name in ("a", "b", "c")]
    settings = parse_settings({"manifest": {"episodes": rows}, "episodes": ["c", "a", "c"]})

    assert [spec.episode_id for spec in settings.read_manifest().episodes] == ["c", "a"]


def test_a_selection_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(ManifestError, match="selection is empty"):
        parse_settings(plain(episodes=[])).read_manifest()
    with pytest.raises(ManifestError, match="'z'"):
        parse_settings(plain(episodes=["z"])).read_manifest()


def test_a_manifest_names_a_file_or_rows_and_not_both() -> None:
    assert "names no episodes" in problems({"manifest": {}})[0]
    assert "a file and rows" in problems({"manifest": {"path": "x", "episodes": [ROW]}})[0]


def test_preflight_says_which_required_perception_service_is_missing() -> None:
    found = problems(
        plain(
            command={"kind": "preflight", "require_perception": True},
            perception={"kind": "mcp", "sam3_url": "http://127.0.0.1:1/mcp"},
        )
    )

    assert found == (
        "settings: command.require_perception = true: perception is required; "
        "set perception.anygrasp_url",
    )


def test_a_cap_in_dollars_needs_the_price_of_a_token() -> None:
    money: JsonObject = {"experiment_usd": 5.0, "input_usd_per_million": 2.0}

    assert problems(plain(money=money)) == (
        "settings: money.experiment_usd = 5.0: cannot be kept while the price is not known; set "
        "money.output_usd_per_million",
    )
    assert parse_settings(plain(money={**money, "output_usd_per_million": 8.0})).money
    assert parse_settings(plain(money={"experiment_tokens": 5})).money


def test_a_baseline_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    assert parse_settings(plain(baseline={"tree": str(tmp_path)})).baseline.tree == str(tmp_path)
    assert "no directory" in problems(plain(baseline={"tree": str(tmp_path / "none")}))[0]


def behaviour(**fields: JsonValue) -> JsonObject:
    return parse_settings(plain(**fields)).behaviour_json()


@pytest.mark.parametrize(
    "change",
    [
        {"concurrency": {"episodes": 1}},
        {"tracking": {"kind": "none"}},
        {"output_root": "elsewhere"},
        {"experiment_id": "other"},
        {"fresh": True},
        {"money": {"experiment_tokens": 7, "generation_tokens": 7}},
        {"simulator": {"kind": "embedded", "max_processes": 1, "call_timeout_s": 1}},
        {"provider": {"kind": "embedded", "latency_s": 1}},
    ],
)
def test_what_cannot_influence_an_episode_does_not_name_the_arm(change: JsonObject) -> None:
    assert behaviour(**change) == behaviour()


@pytest.mark.parametrize(
    "change",
    [
        {"simulator": {"kind": "embedded", "quality": "fast"}},
        {"simulator": {"kind": "embedded", "image_width": 128}},
        {"perception": {"kind": "none"}},
        {"provider": {"kind": "embedded", "model": "scripted-fixed-sequence"}},
        {"provider": {"kind": "openai", "base_url": "http://127.0.0.1/v1", "model": "m"}},
        {"planner": {"kind": "model", "max_skills": 1}},
        {"approvement": {"profile": "human_gated"}},
    ],
)
def test_what_can_influence_an_episode_names_the_arm(change: JsonObject) -> None:
    assert behaviour(**change) != behaviour()


def test_public_settings_hold_the_name_of_the_key_and_not_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(os.environ, "OPENETA_LLM_API_KEY", "sk-hunter2")
    settings = parse_settings(
        plain(provider={"kind": "openai", "base_url": "http://127.0.0.1/v1", "model": "m"})
    )

    assert "OPENETA_LLM_API_KEY" in str(settings.public_json())
    assert "hunter2" not in str(settings.public_json())


def test_public_settings_can_be_read_back() -> None:
    settings = parse_settings(plain(provider={"kind": "embedded", "latency_s": 0.5}))

    assert parse_settings(settings.public_json()) == settings
