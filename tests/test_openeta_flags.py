"""OpenETA's own command lines say the same as overrides of conf/."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from openeta_exp.composition import compose_settings
from openeta_exp.openeta_flags import Asked, quoted, read_batch_line, read_command_line
from openeta_exp.settings.command import PreflightSettings, ResumeSettings
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.world import McpPerceptionSettings, McpSimulatorSettings

BATCH = """--manifest examples/parallel_libero_eval.json --concurrency 10
  --approvement reviewed_autonomy --output outputs/parallel-libero.json"""
RUN = """--command run --manifest examples/parallel_libero_eval.json
  --experiment-id libero-grasp-v1 --concurrency 4 --provider-concurrency 2
  --episode-id libero-object-0 --episode-id libero-object-4
  --approvement reviewed_autonomy --on-need-human fail"""


@pytest.fixture(autouse=True)
def no_services_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENETA_LLM_API_BASE", "OPENETA_LLM_MODEL", "OPENETA_SIM_URL"):
        monkeypatch.delenv(name, raising=False)


def batch(line: str) -> Asked:
    return read_batch_line(shlex.split(line))


def command(line: str) -> Asked:
    return read_command_line(shlex.split(line))


def settings(asked: Asked) -> ExperimentSettings:
    assert asked.problems == ()
    return compose_settings(asked.overrides)


def test_the_printed_batch_line_is_understood() -> None:
    asked = batch(BATCH)
    composed = settings(asked)

    assert composed.command.kind == "run"
    assert composed.manifest.path == Path("examples/parallel_libero_eval.json")
    assert composed.experiment_id == "parallel_libero_eval"
    assert composed.concurrency.episodes == 10
    assert composed.approvement.profile == "reviewed_autonomy"
    assert asked.copy_to == Path("outputs/parallel-libero.json")
    assert asked.report == "result"


def test_validate_only_is_the_validate_command() -> None:
    asked = batch("--manifest m.json --concurrency 10 --validate-only")

    assert settings(asked).command.kind == "validate"
    assert settings(asked).approvement.profile == "standard"


def test_the_printed_run_line_is_understood() -> None:
    composed = settings(command(RUN))

    assert command(RUN).report == "short"
    assert command(f"{RUN} --print-full-result").report == "full"
    assert composed.command.kind == "run"
    assert composed.experiment_id == "libero-grasp-v1"
    assert composed.concurrency.episodes == 4
    assert composed.concurrency.provider == 2
    assert composed.episodes == ("libero-object-0", "libero-object-4")
    assert composed.approvement.profile == "reviewed_autonomy"
    assert composed.on_need_human == "fail"


@pytest.mark.parametrize("kind", ["preflight", "run", "capacity"])
def test_unattended_commands_default_to_reviewed_autonomy(kind: str) -> None:
    composed = settings(command(f"--command {kind} --manifest m.json"))

    assert composed.command.kind == kind
    assert composed.approvement.profile == "reviewed_autonomy"
    assert composed.concurrency.provider_queue_timeout_s == 180


def test_inspect_needs_no_manifest() -> None:
    composed = settings(command("--command inspect --experiment-id libero-grasp-v1"))

    assert composed.command.kind == "inspect"
    assert composed.experiment_id == "libero-grasp-v1"


def test_preflight_flags_reach_the_command() -> None:
    line = "--command preflight --manifest m.json --require-perception --mcp-timeout-s 5"

    assert settings(command(line)).command == PreflightSettings(
        require_perception=True, mcp_timeout_s=5
    )


def test_services_that_are_named_replace_the_embedded_ones() -> None:
    composed = settings(
        batch("--manifest m --sim-url http://127.0.0.1:1/mcp --sam3-url http://127.0.0.1:2/mcp")
    )

    assert isinstance(composed.simulator, McpSimulatorSettings)
    assert isinstance(composed.perception, McpPerceptionSettings)
    assert composed.perception.anygrasp_url is None
    alone = settings(batch("--manifest m --sim-url http://127.0.0.1:1/mcp"))
    assert alone.perception.kind == "none"


def test_an_endpoint_in_the_environment_replaces_the_embedded_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENETA_LLM_API_BASE", "http://127.0.0.1:1/v1")

    provider = settings(batch("--manifest m --model my-model")).provider

    assert provider.kind == "openai"
    assert provider.model == "my-model"


def test_further_overrides_may_stand_anywhere() -> None:
    asked = batch("simulator.quality=fast --manifest m.json tracking=none")

    assert settings(asked).tracking.kind == "none"


def test_a_command_that_does_not_exist_is_refused_in_one_sentence() -> None:
    (problem,) = command("--command iterat --train-manifest a").problems

    assert "use preflight, run, iterate, capacity, inspect" in problem


def test_the_printed_resume_line_is_understood() -> None:
    asked = read_batch_line(
        ["--resume-session", "one-1", "--interaction-id", "i-1", "--answer", "Pick the red cube"]
    )

    settings = compose_settings(asked.overrides)

    assert asked.problems == ()
    assert settings.command == ResumeSettings(
        session_id="one-1", interaction_id="i-1", answer="Pick the red cube"
    )


def test_an_answer_without_a_session_is_refused() -> None:
    assert batch("--manifest m --answer yes").problems == ("--answer: belongs to --resume-session",)


def test_a_missing_manifest_and_an_unknown_flag_are_said() -> None:
    assert batch("--validate-only").problems[0].startswith("--manifest: is missing")
    assert "--turns" in command("--command run --manifest m --turns 3").problems[0]


AWKWARD = st.text(st.sampled_from("ab\\\"'${}:,=[]() \n\t#é~+*"), max_size=10)


@given(AWKWARD)
def test_any_text_survives_as_the_value_of_an_override(text: str) -> None:
    override = OverridesParser.create().parse_override(f"a={quoted(text)}")
    config = OmegaConf.create({})
    OmegaConf.update(config, "a", override.value(), force_add=True)

    assert OmegaConf.to_container(config, resolve=True) == {"a": text}
