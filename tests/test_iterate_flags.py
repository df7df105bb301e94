"""`openeta --command iterate` says the same as overrides of conf/."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from openeta_exp.composition import compose_settings
from openeta_exp.domain.gate import Floor, FloorRule, NoRegressionGate, SequentialGate
from openeta_exp.openeta_flags import read_command_line
from openeta_exp.settings.experiment import ExperimentSettings

PRINTED = """--command iterate --train-manifest examples/parallel_libero_train.json
  --validation-manifest examples/parallel_libero_holdout.json --experiment-id libero-grasp-v1
  --rounds 3 --concurrency 10 --approvement reviewed_autonomy --on-need-human fail"""
LEAST = "--command iterate --train-manifest train.json --validation-manifest held_out.json"
STRATEGY = """--strategy-min-canary-attempts 4 --strategy-min-held-out-attempts 30
  --strategy-min-held-out-success-rate 0.9 --strategy-min-held-out-tasks 3"""


@pytest.fixture(autouse=True)
def no_services_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENETA_LLM_API_BASE", "OPENETA_LLM_MODEL", "OPENETA_SIM_URL"):
        monkeypatch.delenv(name, raising=False)


def settings(line: str) -> ExperimentSettings:
    asked = read_command_line(shlex.split(line))
    assert asked.problems == ()
    return compose_settings(asked.overrides)


def problems(line: str) -> tuple[str, ...]:
    return read_command_line(shlex.split(line)).problems


def test_the_printed_line_is_understood() -> None:
    composed = settings(PRINTED)

    assert composed.command.kind == "iterate"
    assert composed.manifest.path == Path("examples/parallel_libero_train.json")
    assert composed.held_out is not None
    assert composed.held_out.path == Path("examples/parallel_libero_holdout.json")
    assert composed.canary is None, "made of other seeds of the training tasks"
    assert composed.experiment_id == "libero-grasp-v1"
    assert composed.lineage.generations == 3
    assert composed.concurrency.episodes == 10
    assert composed.approvement.profile == "reviewed_autonomy"
    assert composed.on_need_human == "fail"


def test_defaults_are_one_round_named_after_the_training_manifest_and_publication() -> None:
    composed = settings(LEAST)

    assert composed.lineage.generations == 1
    assert composed.experiment_id == "train"
    assert composed.approvement.profile == "reviewed_autonomy"
    assert composed.publish_grasp_strategies is True
    assert composed.gate == compose_settings([]).gate


def test_publication_can_be_left_out_and_a_canary_named() -> None:
    composed = settings(f"{LEAST} --no-publish-grasp-strategies --canary-manifest c.json")

    assert composed.publish_grasp_strategies is False
    assert composed.canary is not None
    assert composed.canary.path == Path("c.json")
    assert settings(f"{LEAST} --publish-grasp-strategies").publish_grasp_strategies is True


def test_strategy_limits_reach_the_default_gate() -> None:
    composed = settings(f"{LEAST} {STRATEGY}")

    assert isinstance(composed.gate, SequentialGate)
    assert composed.gate.n_min == 30
    assert composed.gate.min_tasks == 3
    assert composed.gate.floor == Floor(rate=0.9, rule=FloorRule.POINT)
    assert composed.lineage.canary_episodes == 4


def test_strategy_limits_reach_the_original_rule() -> None:
    gate = settings(f"{LEAST} {STRATEGY} gate=no_regression").gate

    assert isinstance(gate, NoRegressionGate)
    assert gate.strategy is not None
    assert gate.strategy.model_dump() == {
        "min_canary_attempts": 4,
        "min_held_out_attempts": 30,
        "min_success_rate": 0.9,
        "min_tasks": 3,
    }
    one = settings(f"{LEAST} --strategy-min-held-out-tasks 5 gate=no_regression").gate
    assert isinstance(one, NoRegressionGate)
    assert one.strategy is not None
    assert (one.strategy.min_tasks, one.strategy.min_held_out_attempts) == (5, 20)


def test_episodes_are_selected_from_both_manifests() -> None:
    composed = settings(f"{LEAST} --episode-id b --episode-id a")

    assert composed.episodes == ("b", "a")
    assert composed.held_out is not None
    assert composed.held_out.select == ("b", "a")


def test_a_real_endpoint_writes_the_candidates_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENETA_LLM_API_BASE", "http://127.0.0.1:1/v1")

    composed = settings(f"{LEAST} --model my-model")

    assert composed.provider.kind == "openai"
    assert composed.author.kind == "model"


def test_everything_that_is_missing_or_wrong_is_said_together() -> None:
    found = problems("--command iterate --manifest m --approvement standard --on-need-human pause")

    assert [each.partition(":")[0] for each in found] == [
        "--train-manifest",
        "--validation-manifest",
        "--manifest",
        "--approvement standard",
        "--on-need-human pause",
    ]


def test_its_flags_are_refused_for_other_commands() -> None:
    found = problems("--command run --manifest m --rounds 3 --no-publish-grasp-strategies")

    assert found == (
        "--rounds: belongs to --command iterate",
        "--publish-grasp-strategies: belongs to --command iterate",
    )
