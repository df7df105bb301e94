"""The command that runs an episode of a comparison again runs it under the same arms."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from pydantic import BaseModel

from openeta_exp.adapters.store.layout import ComparisonLayout, ExperimentLayout
from openeta_exp.assembly.catalog_contestants import planner_arm
from openeta_exp.assembly.catalog_replay import PLANNER_SECTIONS, replay_command
from openeta_exp.assembly.catalog_world import read_expansion, recipe
from openeta_exp.composition import compose_settings
from openeta_exp.domain.event import Arm
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.model import EmbeddedProviderSettings
from openeta_exp.wire.manifest import render_manifest

ARMS = ("policy@a=tests.catalog.toy_policies:Homing", "a.params={gain: 2.5}", "policy@b=planner")
EPISODE = "pick-can-7"

PLANNERS = {
    "as it is shipped": (),
    "the reported one": (
        "baseline.tree=naive",
        "planner.max_history_turns=3",
        "simulator.quality=fast",
        "provider=openai",
        "provider.base_url=http://127.0.0.1:8000/v1",
        "provider.model='a model: \"big\", v1'",
    ),
    "planner": (
        "planner.max_output_tokens=77",
        "planner.validation_retries=0",
        "planner.max_history_turns=0",
        "planner.max_history_characters=9000",
        "planner.max_skills=1",
    ),
    "embedded provider": (
        "provider.model=scripted-careless",
        "provider.latency_s=0.25",
        'provider.faults="rate_limit@1-3,retry_after=2"',
        "provider.timeout_s=7.5",
        "provider.max_attempts=5",
        "provider.backoff_s=0",
        "provider.role_models={action_reviewer: scripted-careless}",
    ),
    "real provider": (
        "provider=openai",
        "provider.base_url='https://models.example/v1?region=a&b=c'",
        "provider.model=m",
        "provider.api_key_env=MY_KEY",
        "provider.timeout_s=9",
        "provider.max_attempts=1",
        "provider.backoff_s=2",
        "provider.role_models={guidance_agent: other/model}",
        "provider.fallback={base_url: 'http://127.0.0.1:1/v1', model: spare, api_key_env: SPARE}",
    ),
    "embedded simulator": (
        "simulator.quality=fast",
        "simulator.gl=osmesa",
        "simulator.max_processes=3",
        "simulator.cameras=[]",
        "perception=none",
        "simulator.image_width=64",
        "simulator.image_height=96",
        "simulator.call_timeout_s=11",
        "simulator.close_timeout_s=12",
    ),
    "another simulator": (
        "simulator=mcp",
        "perception=none",
        "simulator.url=http://127.0.0.1:9100/mcp",
        "simulator.transport=sse",
        "simulator.cameras=[front, 'wrist cam']",
        "simulator.image_width=64",
        "simulator.image_height=96",
        "simulator.call_timeout_s=11",
        "simulator.close_timeout_s=12",
    ),
    "no perception": ("perception=none",),
    "other perception": (
        "perception=mcp",
        "perception.sam3_url=http://127.0.0.1:9200",
        "perception.anygrasp_url=http://127.0.0.1:9300",
        "perception.transport=sse",
        "perception.timeout_s=8",
    ),
    "agent": (
        "agent.memory=false",
        "agent.skill_changes=false",
        "agent.enforce_allowed_tools=true",
        "sandbox=monty",
        "sandbox.processes=4",
    ),
    "approvement": ("approvement=reviewed_autonomy",),
    "approvement by field": ("approvement.profile=human_gated", "approvement.timeout_s=5"),
    "baseline": ("baseline.tree=naive",),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory the command is started in; it has a tree of its own and a manifest."""
    monkeypatch.chdir(tmp_path)
    for name in ("skills", "grasp_strategies"):
        (tmp_path / "my tree" / name).mkdir(parents=True)
    episode = {
        "episode_id": EPISODE,
        "env_id": "openeta/tabletop_pick_can_basket-v0",
        "task": "pick up the can and place it in the basket",
        "seed": 7,
    }
    (tmp_path / "mine.json").write_text(json.dumps({"episodes": [episode]}), encoding="utf-8")
    return tmp_path


def composed(*overrides: str) -> ExperimentSettings:
    return compose_settings(
        ["command=compare", "catalog=embedded", "manifest.path=mine.json", *ARMS, *overrides]
    )


def places(settings: ExperimentSettings) -> ComparisonLayout:
    return ExperimentLayout.below(
        settings.output_root.absolute(), settings.experiment_id
    ).comparison


def replayed(settings: ExperimentSettings) -> ExperimentSettings:
    """The settings of the printed command, once the comparison has written its episodes."""
    layout = places(settings)
    layout.episodes.parent.mkdir(parents=True, exist_ok=True)
    rendered = render_manifest(read_expansion(settings).manifest)
    layout.episodes.write_text(json.dumps(rendered), encoding="utf-8")
    words = shlex.split(replay_command(settings, EPISODE, layout=layout))
    assert words[:3] == ["python", "-m", "openeta_exp"]
    return compose_settings(words[3:])


def planner(settings: ExperimentSettings) -> Arm:
    return planner_arm(settings, "b", {"render": None})


@pytest.mark.parametrize("overrides", PLANNERS.values(), ids=PLANNERS)
def test_the_planner_of_the_printed_command_is_the_same_arm(
    here: Path, overrides: tuple[str, ...]
) -> None:
    settings = composed(*overrides)

    again = replayed(settings)

    assert planner(again).content_digest == planner(settings).content_digest
    for name in PLANNER_SECTIONS:
        assert getattr(again, name) == getattr(settings, name)
    assert recipe(again.policies["a"]) == recipe(settings.policies["a"])
    assert list(again.policies) == list(settings.policies)


def test_every_field_of_every_section_of_a_planner_is_tried_above() -> None:
    behaviour = composed_without_files().behaviour_json()
    untried = []
    for name in PLANNER_SECTIONS:
        changed = {
            (type(getattr(settings, name)), field)
            for settings in map(composed_without_files, PLANNERS.values())
            for field in changed_fields(getattr(settings, name))
        }
        for kind in kinds(name):
            untried += [
                f"{name}.{field} ({kind.__name__})"
                for field in kind.model_fields
                if field != "kind" and (kind, field) not in changed
            ]

    assert untried == []
    assert set(behaviour) - set(PLANNER_SECTIONS) == {"on_need_human"}


def composed_without_files(overrides: tuple[str, ...] = ()) -> ExperimentSettings:
    return compose_settings(["command=compare", "catalog=embedded", *ARMS, *overrides])


def changed_fields(section: BaseModel) -> list[str]:
    return [
        name
        for name, field in type(section).model_fields.items()
        if getattr(section, name) != field.get_default(call_default_factory=True)
    ]


def kinds(section: str) -> set[type[BaseModel]]:
    return {
        type(getattr(composed_without_files(overrides), section)) for overrides in PLANNERS.values()
    }


def test_an_endpoint_that_the_environment_names_is_printed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENETA_LLM_API_BASE", "http://127.0.0.1:8000/v1")
    monkeypatch.setenv("OPENETA_LLM_MODEL", "m")
    settings = composed("provider=openai")
    monkeypatch.delenv("OPENETA_LLM_API_BASE")
    monkeypatch.delenv("OPENETA_LLM_MODEL")

    assert planner(replayed(settings)).content_digest == planner(settings).content_digest


def test_a_service_that_was_left_out_is_left_out_whatever_the_environment_names(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENETA_SAM3_URL", "http://127.0.0.1:9200")
    monkeypatch.setenv("OPENETA_ANYGRASP_URL", "http://127.0.0.1:9300")
    settings = composed("perception=mcp", "perception.sam3_url=null")

    assert replayed(settings).perception == settings.perception


def test_a_tree_of_ones_own_and_other_places_are_printed(here: Path) -> None:
    settings = composed(
        'baseline.tree="my tree"', 'output_root="my outputs"', "registry_root=shared"
    )

    again = replayed(settings)

    assert planner(again).content_digest == planner(settings).content_digest
    assert again.output_root == settings.output_root
    assert again.registry_root == settings.registry_root


def test_the_episode_is_the_same_and_the_only_one(here: Path) -> None:
    settings = composed("catalog.max_steps=17", "catalog.privileged=true", "catalog.cameras=[a, b]")

    again = replayed(settings)

    expansion, before = read_expansion(again), read_expansion(settings)
    assert expansion.manifest == before.manifest
    assert expansion.bindings == before.bindings
    assert again.experiment_id != settings.experiment_id
    assert again.fresh


def test_policies_alone_need_no_words_about_a_planner(here: Path) -> None:
    settings = compose_settings(
        [
            *("command=compare", "catalog=embedded", "manifest.path=mine.json"),
            *("policy@a=tests.catalog.toy_policies:Homing", "policy@b=ws://127.0.0.1:8000"),
            *("provider.model=scripted-careless", "baseline.tree=naive"),
        ]
    )

    assert isinstance(settings.provider, EmbeddedProviderSettings)
    command = replay_command(settings, EPISODE, layout=places(settings))
    assert "provider" not in command
    assert "baseline" not in command


def test_each_episode_is_replayed_in_an_experiment_of_its_own(here: Path) -> None:
    def experiment_of(settings: ExperimentSettings, episode_id: str) -> str:
        words = shlex.split(replay_command(settings, episode_id, layout=places(settings)))
        [found] = [each for each in words if each.startswith("experiment_id=")]
        return found.partition("=")[2]

    settings = composed("experiment_id=mine")
    first, second = (experiment_of(settings, each) for each in (EPISODE, "pick-can-8"))

    assert len({"mine", first, second}) == 3
    assert experiment_of(composed(f"experiment_id={first}"), EPISODE) == first
