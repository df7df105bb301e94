"""conf/ and overrides become settings, or every reason why not, with its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.composition import ComposedOrigin, as_additions, compose_settings, conf_dir
from openeta_exp.errors import SettingsError
from openeta_exp.settings.command import ResumeSettings, SubagentEvalSettings
from openeta_exp.settings.world import EmbeddedSimulatorSettings, McpSimulatorSettings

EXPERIMENTS = sorted(each.stem for each in (conf_dir() / "experiment").glob("*.yaml"))


def problems(*overrides: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        compose_settings(overrides)
    return caught.value.problems


def test_the_configuration_alone_is_runnable() -> None:
    settings = compose_settings([])

    assert settings.command.kind == "run"
    assert len(settings.read_manifest().episodes) == 2


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_and_has_episodes(name: str) -> None:
    settings = compose_settings([f"+experiment={name}"])

    assert settings.experiment_id == name
    assert settings.read_manifest().episodes


def test_the_main_job_runs_ten_objects_several_at_once() -> None:
    settings = compose_settings(["+experiment=libero_grasp"])
    episodes = settings.read_manifest().episodes

    assert len(episodes) >= 10
    assert len({spec.env_id for spec in episodes}) >= 5
    assert settings.concurrency.episodes >= 2


def test_every_option_of_every_group_is_a_section() -> None:
    fillers = {
        "author/file": ["author.folder=revisions"],
        "manifest/file": ["manifest.path=m.json"],
        "approve": ["interaction_id=approval-1"],
        "deny": ["interaction_id=approval-1"],
        "resume": ["session_id=one-1"],
        "rollback": ["command.strategy=top-grasp", "command.reason=test"],
        "mcp": ["simulator.url=http://127.0.0.1:1/mcp", "perception=none"],
        "openai": ["provider.base_url=http://127.0.0.1:1/v1", "provider.model=m"],
        "files": ["catalog.path=my_catalog"],
        "check": ["catalog.path=my_catalog"],
        "compare": ["catalog.path=my_catalog", "policy@a=m:A", "policy@b=m:B"],
        "callable": ["x.target=m:A"],
        "model_server": ["x.target=m:A"],
        "vla_eval": ["x.url=ws://127.0.0.1:1"],
    }
    for option in sorted(conf_dir().glob("*/*.yaml")):
        group = option.parent.name
        if group in ("experiment", "perception"):
            continue
        filler = fillers.get(f"{group}/{option.stem}") or fillers.get(option.stem, [])
        chosen = "policy@x" if group == "policy" else group
        compose_settings([f"{chosen}={option.stem}", *filler])


def test_an_experiment_can_be_named_without_a_plus() -> None:
    assert compose_settings(["experiment=libero_smoke"]).experiment_id == "libero_smoke"


def test_an_override_beats_the_experiment() -> None:
    settings = compose_settings(["+experiment=libero_grasp", "simulator.quality=benchmark"])

    assert isinstance(settings.simulator, EmbeddedSimulatorSettings)
    assert settings.simulator.quality == "benchmark"


def test_mistakes_are_reported_together_each_with_where_it_was_written() -> None:
    found = problems(
        *("concurrency.episods=3", "simulator.quality=bst", "experiment_id=a/b", "sede=3"),
        "concurency.episodes=3",
    )

    assert len(found) == 5
    assert all(each.startswith("command line: ") for each in found)
    assert "command line: concurrency.episods = 3: no such field; did you mean episodes?" in found
    assert "command line: concurency = {...}: no such field; did you mean concurrency?" in found


def test_a_field_that_an_option_leaves_open_is_traced_to_its_file() -> None:
    assert problems("simulator=mcp", "perception=none") == (
        "conf/simulator/mcp.yaml: simulator.url = null: is not set; give it a value",
    )


def test_a_field_of_a_gate_is_named_without_its_mode() -> None:
    assert problems("gate.alpha=3", "gate.alhpa=1") == (
        "command line: gate.alpha = 3: must be less than 1.0",
        "command line: gate.alhpa = 1: no such field; did you mean alpha?",
    )


def test_a_field_of_an_experiment_is_traced_to_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("simulator: {quality: best}\n")
    origin = ComposedOrigin(
        choices={"experiment": "mine", "simulator": "embedded"},
        overridden=(("episodes",), ("simulator",)),
        directories=(tmp_path, conf_dir()),
    )

    assert origin(["simulator", "quality"]) == str(tmp_path / "experiment" / "mine.yaml")
    assert origin(["simulator", "gl"]) == "conf/simulator/embedded.yaml"
    assert origin(["episodes[0]"]) == "command line"
    assert origin(["output_root"]) == "conf/config.yaml"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("simulator=mpc", "simulator = 'mpc': no such option; did you mean mcp?"),
        ("experiment=libero_graps", "no such option; did you mean libero_grasp?"),
        ("manifest=null", "manifest = 'null': is a group; choose one of file, "),
        ("concurrency=3", "concurrency = '3': is a group; choose one of default, serial"),
        ("+simulator=mcp", "Multiple values for simulator"),
        ("concurrency.episodes=[1", "concurrency.episodes=[1: cannot be read as FIELD=VALUE"),
        ("foo", "foo: cannot be read as FIELD=VALUE"),
    ],
)
def test_what_hydra_refuses_is_one_sentence(override: str, said: str) -> None:
    (found,) = problems(override)

    assert found.startswith("command line: ")
    assert said in found
    assert "\n" not in found


def test_an_interpolation_that_cannot_be_resolved_names_its_field() -> None:
    (found,) = problems("output_root=${oc.env:OPENETA_SURELY_UNSET}")

    assert "output_root" in found
    assert "OPENETA_SURELY_UNSET" in found


def test_a_manifest_file_replaces_the_rows_of_the_chosen_manifest() -> None:
    manifest = compose_settings(["+experiment=libero_grasp", "manifest.path=m.json"]).manifest

    assert manifest.path == Path("m.json")
    assert manifest.episodes is None
    assert manifest.split is None


def test_a_held_out_file_replaces_the_rows_of_the_experiment() -> None:
    held_out = compose_settings(["+experiment=tabletop_iterate", "held_out.path=m.json"]).held_out

    assert held_out is not None
    assert held_out.path == Path("m.json")
    assert held_out.episodes is None


def test_a_manifest_of_another_role_is_traced_to_its_file() -> None:
    (found,) = problems("+experiment=tabletop_iterate", "canary.path=3", "canary.split=null")
    origin = ComposedOrigin(
        choices={"manifest": "libero_smoke", "manifest@canary": "tabletop_canary"},
        overridden=(),
        directories=(conf_dir(),),
    )

    assert found.startswith("command line: canary.path = 3")
    assert origin(["canary", "split"]) == "conf/manifest/tabletop_canary.yaml"


def test_policies_keep_the_order_of_the_command_line() -> None:
    settings = compose_settings(
        [
            "command=compare",
            "catalog.path=my_catalog",
            "policy@z=my_module:Policy",
            "policy@a=ws://127.0.0.1:8000",
            "policy@m=model_server",
            "m.target=my_model:Server",
            "z.params={gain: 2, words: 'a b'}",
            "gate_required=true",
        ]
    )

    assert list(settings.policies) == ["z", "a", "m"]
    assert settings.policies["z"].model_dump()["params"] == {"gain": 2, "words": "a b"}
    assert settings.policies["a"].model_dump()["url"] == "ws://127.0.0.1:8000"
    assert settings.command.model_dump()["gate_required"] is True
    assert settings.catalog is not None
    assert settings.catalog.kind == "files"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["policy@a=m:A"], "policies = {...}: two are needed"),
        ([], "policies = null: two are needed"),
        (["policy@a=m:A", "policy@b=callable"], "conf/policy/callable.yaml: policies.b.target"),
        (["policy@a=m:A", "policy@b=m:B", "b.parms={}"], "policies.b.parms = {}: no such field"),
        (["policy@a=m:A", "policy@b=planner"], "policies.b.kind = 'planner': the planner knows"),
        (["policy=callable"], "policy = 'callable': has no name; write policy@a=callable"),
        (["policy@gate=m:A"], "policy@gate: the configuration has a gate already"),
        (["policy@a-b=m:A"], "policy@a-b: cannot name a policy"),
        (["policy@a=calable"], "no such option; did you mean callable?"),
        (["policy@a=m.policies"], "vla_eval, or MODULE:NAME or ws://HOST:PORT"),
        (["policy@a=two words"], "write an import string such as my_module:Policy"),
    ],
)
def test_a_mistake_about_policies_is_one_sentence(overrides: list[str], said: str) -> None:
    found = problems("command=compare", "catalog.path=my_catalog", *overrides)

    assert any(said in each for each in found), found


def test_a_comparison_without_a_catalog_says_what_to_name() -> None:
    (found,) = problems("command=compare", "policy@a=m:A", "policy@b=m:B")

    assert "catalog.path" in found
    assert "catalog=embedded" in found


def test_only_plain_fields_are_turned_into_additions() -> None:
    assert as_additions(
        ["a.b=1", "simulator=mcp", "+x=1", "~y", "hydra.job.chdir=true", "--cfg", "job"]
    ) == ["++a.b=1", "simulator=mcp", "+x=1", "~y", "hydra.job.chdir=true", "--cfg", "job"]


def test_services_of_the_environment_fill_what_is_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENETA_SIM_URL", "http://127.0.0.1:1/mcp")

    simulator = compose_settings(["simulator=mcp", "perception=none"]).simulator

    assert isinstance(simulator, McpSimulatorSettings)
    assert simulator.url == "http://127.0.0.1:1/mcp"


def test_fields_of_the_chosen_command_need_no_prefix_and_texts_no_quotes() -> None:
    resume = compose_settings(
        ["command=resume", "session_id=one-1", "interaction_id=i-1", "answer=Yes, the {red} one: 1"]
    )
    strict = compose_settings(["command=subagent_eval", "strict=true", "roles=[guidance_agent]"])

    assert resume.command == ResumeSettings(
        session_id="one-1", interaction_id="i-1", answer="Yes, the {red} one: 1"
    )
    assert strict.command == SubagentEvalSettings(strict=True, roles=("guidance_agent",))


def test_a_field_of_another_command_is_still_unknown() -> None:
    with pytest.raises(SettingsError, match="strict"):
        compose_settings(["command=run", "strict=true"])
