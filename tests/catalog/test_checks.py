"""Runs that would mean nothing are recognised before they cost anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openeta_exp.catalog.checks import check_catalog
from openeta_exp.catalog.checks_conventions import judge_conventions
from openeta_exp.catalog.checks_outcomes import check_outcomes
from openeta_exp.catalog.checks_reset import (
    Compared,
    Difference,
    ResetProbe,
    ResetReport,
    StartReport,
    hidden_parameters,
    judge_resets,
)
from openeta_exp.catalog.findings import CheckReport, CheckVerdict
from openeta_exp.catalog.messages import AdapterDescription, PolicyDescription, TaskAccess
from openeta_exp.catalog.pool import WorkerPool
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.ports.policy import PolicyRecipe
from openeta_exp.wire.catalog_files import External, SceneEntry
from tests.adapters.policy.test_model_host import hosted
from tests.catalog.catalogs import ARM, policy, runner_on, toy

pytestmark = pytest.mark.anyio

GOOD = {"a": policy(), "b": policy(gain=2.0)}


async def checked(
    pool: WorkerPool,
    directory: Path,
    policies: dict[str, PolicyRecipe] | None = None,
    **changes: Any,
) -> CheckReport:
    expansion = toy(directory, **changes)
    runner = runner_on(pool, expansion)
    return await check_catalog(expansion, runner, GOOD if policies is None else policies)


def said(report: CheckReport, check: str, verdict: CheckVerdict) -> str:
    found = [each for each in report.findings if each.check == check]
    assert verdict in {each.verdict for each in found}, report.findings
    return "\n".join(each.message for each in found if each.verdict is verdict)


async def test_a_sound_comparison_has_no_finding_that_needs_attention(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(pool, tmp_path)

    assert report.verdict is CheckVerdict.OK
    assert report.problems == ()


async def test_a_parameter_without_effect_is_named(tmp_path: Path, pool: WorkerPool) -> None:
    report = await checked(pool, tmp_path, provider="Inert")

    assert "y has no effect: 0.2 and 0.6" in said(report, "parameter_effect", CheckVerdict.INVALID)
    assert "x changes" in said(report, "parameter_effect", CheckVerdict.OK)


async def test_a_parameter_that_shows_later_is_accepted_as_hidden(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(pool, tmp_path, provider="Hidden")

    assert "y shows only once the world moves" in said(report, "parameter_effect", CheckVerdict.OK)
    assert hidden_parameters(report.findings) == ("y",)


async def test_a_reset_that_draws_on_its_own_is_caught(tmp_path: Path, pool: WorkerPool) -> None:
    report = await checked(pool, tmp_path, provider="Unseeded")

    assert "starts differently every time" in said(report, "unseeded_reset", CheckVerdict.INVALID)


def test_an_effect_that_drowns_in_the_noise_of_resets_is_called_that() -> None:
    apart = Difference(known=True, largest=165.0, where="front", paths=("front",))
    start = StartReport(
        digest="d",
        keys=("front",),
        access=TaskAccess(read=("x",)),
        done_at_reset=False,
        success_at_reset=False,
        error=None,
    )
    pairs = (("first", "again"), ("again", "once more"), ("x low", "x high"))
    report = ResetReport(
        cases={name: start for pair in pairs for name in pair},
        compared=tuple(Compared(pair=each, at_reset=apart, after_steps=apart) for each in pairs),
    )
    found = judge_resets(report, ResetProbe({}, pairs, {"x": (0.1, 0.9)}, ()))

    assert [each.message for each in found if each.check == "parameter_effect"] == [
        "x has no effect: 0.1 and 0.9 differ no more than one scenario from its repeat"
    ]


async def test_draws_from_the_global_generators_are_repeatable(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(pool, tmp_path, provider="GloballySeeded")

    said(report, "unseeded_reset", CheckVerdict.OK)


async def test_an_adapter_that_writes_into_its_task_is_caught(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(pool, tmp_path, provider="Writing")

    assert "writes x into its task" in said(report, "task_mutated", CheckVerdict.INVALID)


async def test_a_task_that_is_solved_at_reset_is_caught(tmp_path: Path, pool: WorkerPool) -> None:
    report = await checked(pool, tmp_path, provider="Solved")

    assert "over before anything is done" in said(report, "success_at_reset", CheckVerdict.INVALID)


async def test_defaults_are_seen_even_where_the_source_hands_the_task_on_whole(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(
        pool,
        tmp_path,
        provider="Forgiving",
        scenarios={
            "params": {
                "xx": {"range": [-0.8, 0.8], "steps": 3},
                "y": {"range": [0.2, 0.6], "steps": 2},
            }
        },
    )

    said(report, "static_key_scan", CheckVerdict.UNKNOWN)
    assert "xx has no effect" in said(report, "parameter_effect", CheckVerdict.INVALID)


async def test_an_adapter_that_cannot_be_built_is_a_finding(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(
        pool, tmp_path, scene={"external": {"provider": "not_installed:Adapter"}}
    )

    assert "not_installed" in said(report, "adapter_unusable", CheckVerdict.INVALID)


async def test_an_adapter_that_does_not_say_what_came_of_an_episode_is_caught(
    tmp_path: Path, pool: WorkerPool
) -> None:
    breaking = {"provider": "tests.catalog.toy_bench:Breaking", "params": {"at": "verdict"}}
    report = await checked(pool, tmp_path, scene={"external": breaking})

    message = said(report, "policy_rollout_fails", CheckVerdict.INVALID)
    assert "get_step_result must return a mapping with `success`" in message


async def test_two_names_for_one_policy_are_caught(tmp_path: Path, pool: WorkerPool) -> None:
    report = await checked(pool, tmp_path, {"a": policy(), "b": policy(), "c": policy(gain=2.0)})

    message = said(report, "identical_policies", CheckVerdict.INVALID)
    assert "policies a and b answer" in message
    assert "\n" not in message


async def test_policies_that_differ_on_some_scenarios_only_are_two(
    tmp_path: Path, pool: WorkerPool
) -> None:
    two = {"a": policy("Handed"), "b": policy("Handed", right=1.0)}

    report = await checked(pool, tmp_path, two)

    assert "a and b are two policies" in said(report, "identical_policies", CheckVerdict.OK)
    assert report.verdict is CheckVerdict.OK


async def test_policies_that_differ_where_nobody_looked_are_not_called_one(
    tmp_path: Path, pool: WorkerPool
) -> None:
    two = {"a": policy("Handed"), "b": policy("Handed", right=1.0)}
    # On the right, neither first nor last nor in the middle.
    choices = {"x": {"choices": [-0.6, 0.6, -0.5, -0.4, -0.3]}, "y": {"choices": [0.2]}}

    report = await checked(pool, tmp_path, two, scenarios={"params": choices})

    message = said(report, "identical_policies", CheckVerdict.SUSPECT)
    assert "although their code, parameters, weights or addresses differ" in message
    assert report.invalid == ()


async def test_a_policy_that_ignores_everything_is_caught(tmp_path: Path, pool: WorkerPool) -> None:
    report = await checked(pool, tmp_path, {"a": policy("still"), "b": policy("full_throttle")})

    message = said(report, "policy_ignores_observation", CheckVerdict.INVALID)
    assert "policy a" in message
    assert "policy a gave one and the same action" in said(
        report, "actions_constant", CheckVerdict.SUSPECT
    )
    assert "policy b pushes every action to its limit" in said(
        report, "actions_saturated", CheckVerdict.SUSPECT
    )


async def test_a_policy_that_never_asks_for_an_image_is_no_mistake(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(pool, tmp_path, {"a": policy("StateOnly"), "b": policy()})

    assert report.verdict is CheckVerdict.OK


async def test_declared_keys_are_compared_with_what_is_sent(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(
        pool,
        tmp_path,
        {"a": policy("Declared"), "b": policy(gain=2.0)},
        params={"camera": "frontal"},
    )

    message = said(report, "observation_key_absent", CheckVerdict.INVALID)
    assert "policy a needs images.front" in message
    assert "did you mean images.frontal?" in message


async def test_state_and_states_are_told_apart(tmp_path: Path, pool: WorkerPool) -> None:
    report = await checked(pool, tmp_path, {"a": policy(state_key="state"), "b": policy()})

    message = said(report, "observation_key_absent", CheckVerdict.INVALID)
    assert "policy a asks for state" in message
    assert "did you mean states?" in message


async def test_a_blind_server_is_caught_from_outside(tmp_path: Path, pool: WorkerPool) -> None:
    with hosted("tests.adapters.policy.blind_model:StateModel") as url:
        served = PolicyRecipe(
            factory="openeta_exp.adapters.policy.vla_eval_client:build", arguments={"url": url}
        )
        report = await checked(pool, tmp_path / "a", {"a": served, "b": policy()})
        declared = PolicyRecipe(
            factory=served.factory, arguments={"url": url, "requires": ["states"]}
        )
        accepted = await checked(pool, tmp_path / "b", {"a": declared, "b": policy()})

    assert "no image changes the actions of policy a" in said(
        report, "policy_is_blind", CheckVerdict.INVALID
    )
    assert accepted.verdict is CheckVerdict.OK


async def test_a_server_that_ignores_the_states_is_pointed_at_the_other_spelling(
    tmp_path: Path, pool: WorkerPool
) -> None:
    with hosted("tests.adapters.policy.blind_model:ImageModel") as url:
        served = PolicyRecipe(
            factory="openeta_exp.adapters.policy.vla_eval_client:build", arguments={"url": url}
        )
        report = await checked(pool, tmp_path, {"a": served, "b": policy()})

    assert "policy a ignores states; many models read state instead" in said(
        report, "policy_ignores_key", CheckVerdict.SUSPECT
    )


async def test_a_policy_that_breaks_is_a_finding_and_no_exception(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(pool, tmp_path, {"a": policy("raising"), "b": policy("absent")})

    assert "out of memory" in said(report, "policy_rollout_fails", CheckVerdict.INVALID)
    assert "policy b" in said(report, "policy_unusable", CheckVerdict.INVALID)


async def test_policies_with_other_action_lengths_are_no_pair(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(
        pool, tmp_path, {"a": policy(), "b": policy("concatenated")}, provider="Reach"
    )

    assert "a answers with actions of length 2, b with 4" in said(
        report, "action_dimensions_differ", CheckVerdict.INVALID
    )


async def test_a_perturbation_the_adapter_cannot_do_is_found_before_the_run(
    tmp_path: Path, pool: WorkerPool
) -> None:
    report = await checked(
        pool,
        tmp_path,
        {"a": policy("still")},
        provider="Empty",
        task={"instruction": "nothing", "provider_ref": {}},
        scenarios={
            "params": {"n": {"range": [1, 2], "steps": 2}},
            "perturbations": [
                {"type": "scale_actuator", "target": "m", "at_step": 0, "args": {"factor": 2}}
            ],
        },
    )

    assert "scale_actuator, get_actuator_limit" in said(
        report, "perturbation_impossible", CheckVerdict.INVALID
    )


async def outcomes(
    pool: WorkerPool, directory: Path, name: str = "Homing", **changes: Any
) -> tuple[list[EpisodeOutcome], Any]:
    expansion = toy(directory, **changes)
    runner = runner_on(pool, expansion)
    found = [
        await runner.run_episode(spec, policy=policy(name), arm=ARM)
        for spec in expansion.manifest.episodes
    ]
    return found, expansion


async def test_arms_that_began_differently_are_no_pairs(tmp_path: Path, pool: WorkerPool) -> None:
    first, expansion = await outcomes(pool, tmp_path)
    moved = [
        each.model_copy(update={"initial_state_digest": f"{index}" * 64})
        for index, each in enumerate(first)
    ]

    assert [each.verdict for each in check_outcomes(expansion, {"a": first, "b": first})] == [
        CheckVerdict.OK
    ]
    (finding, *_) = check_outcomes(expansion, {"a": first, "b": moved})
    assert finding.check == "arms_start_differently"
    assert finding.verdict is CheckVerdict.INVALID


async def test_scenarios_that_all_begin_alike_are_caught_in_the_outcomes(
    tmp_path: Path, pool: WorkerPool
) -> None:
    """Nine scenarios, one pose, a confident verdict: what nothing else reports."""
    params = {"z": {"range": [0, 1], "steps": 9}}
    found, expansion = await outcomes(
        pool, tmp_path, provider="Plain", scenarios={"params": params}
    )

    (finding,) = [
        each
        for each in check_outcomes(expansion, {"a": found})
        if each.check == "scenarios_start_alike"
    ]
    assert finding.verdict is CheckVerdict.INVALID
    assert "9 of 9 scenarios began with one and the same observation" in finding.message
    tolerated = check_outcomes(expansion, {"a": found}, hidden=["z"])
    assert "scenarios_start_alike" not in {each.check for each in tolerated}


async def test_an_arm_that_never_gets_anywhere_is_suspected_of_its_wiring(
    tmp_path: Path, pool: WorkerPool
) -> None:
    found, expansion = await outcomes(pool, tmp_path, "still")
    checks = {each.check for each in check_outcomes(expansion, {"a": found})}

    assert all(isinstance(each, EpisodeResult) for each in found)
    assert {"wiring_suspected", "actions_constant"} <= checks


def described(**fields: Any) -> PolicyDescription:
    return PolicyDescription(**{"identity": {}, **fields})


def test_declared_conventions_that_differ_are_pointed_out() -> None:
    spec = {"name": "rotation", "dims": 3, "format": "euler_xyz"}
    adapter = AdapterDescription.model_validate(
        {
            "api": "stand-in",
            "form": "step",
            "tasks": [],
            "selected": {},
            "metadata": {},
            "action_spec": {"rotation": {**spec, "format": "axis_angle"}},
            "observation_spec": None,
            "methods": [],
            "python": "3",
            "class": "A",
        }
    )
    scene = SceneEntry(
        id="toy", engine="none", external=External(provider="a:B", params={"send_state": False})
    )

    def messages(policy: PolicyDescription) -> list[str]:
        return [each.message for each in judge_conventions("a", policy, adapter, scene)]

    (differs,) = messages(described(action_spec={"rotation": spec}))
    assert "rotation is euler_xyz of length 3, expected is axis_angle" in differs
    (absent,) = messages(described(action_spec={"position": spec}))
    assert "rotation is expected" in absent
    (wish,) = messages(described(identity={"observation_params": {"send_state": True}}))
    assert "send_state = True; scene toy says False" in wish
    assert messages(described()) == []
