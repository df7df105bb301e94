"""`command=power` says what an independent study measured, for a person and for a program."""

from __future__ import annotations

import json

import pytest

from openeta_exp.assembly.power import power, power_report
from openeta_exp.composition import compose_settings
from openeta_exp.domain.identity import JsonObject
from openeta_exp.errors import SettingsError
from openeta_exp.reporting.power_view import PowerReport
from openeta_exp.settings.command import PowerSettings


def report(*overrides: str) -> PowerReport:
    settings = compose_settings(["command=power", *overrides])
    assert isinstance(settings.command, PowerSettings)
    return power_report(settings, settings.command)


def printed(capsys: pytest.CaptureFixture[str], *overrides: str) -> str:
    settings = compose_settings(["command=power", *overrides])
    assert isinstance(settings.command, PowerSettings)
    assert power(settings, settings.command) == 0
    return capsys.readouterr().out


# Baseline, ICC, gain -> discordance, Connor's pairs, exact pairs, mean pairs of the sequential
# test for a candidate that is better, equal, and worse by the gain (left out where the study
# planned with another discordance).
STUDY: list[tuple[float, float, float, float, int, int, tuple[int, int, int] | None]] = [
    (0.5, 0.5, 0.15, 0.27, 73, 80, (51, 48, 28)),
    (0.5, 0.5, 0.30, 0.34, 21, 24, (21, 20, 20)),
    (0.7, 0.2, 0.15, 0.30, 80, 88, (56, 50, 30)),
    (0.7, 0.5, 0.15, 0.21, 56, 62, (42, 37, 23)),
    (0.7, 0.8, 0.10, 0.11, 69, 76, None),
    (0.9, 0.8, 0.05, 0.05, 128, 139, None),
]


@pytest.mark.parametrize(("rate", "icc", "gain", "discordance", "connor", "exact", "mean"), STUDY)
def test_sizes_are_those_of_the_study(
    rate: float,
    icc: float,
    gain: float,
    discordance: float,
    connor: int,
    exact: int,
    mean: tuple[int, int, int] | None,
) -> None:
    plan = report(f"success_rate={rate}", f"icc={icc}", f"effect={gain}").plan

    assert plan.discordance == pytest.approx(discordance, abs=0.006)
    assert (plan.approximate_pairs, plan.n_max) == (connor, exact)
    points = (plan.if_gain, plan.if_equal, plan.if_harm)
    if mean is not None:
        assert [point.mean_pairs for point in points] == pytest.approx(mean, rel=0.05, abs=1)
    assert 0.72 <= plan.if_gain.promote <= 0.82


@pytest.mark.parametrize(
    ("alpha", "at_15", "at_20"), [(0.01, 0.51, 0.86), (0.02, 0.63, 0.92), (0.05, 0.78, 0.97)]
)
def test_the_configured_gate_is_as_powerful_as_in_the_study(
    alpha: float, at_15: float, at_20: float
) -> None:
    # One generation and a lenient ledger, so that it leaves the gate its own level.
    told = report(f"gate.alpha={alpha}", "lineage.generations=1", "lineage.fdr=0.9")

    by_gain = {row.effect: row.point.promote for row in told.design.rows}
    assert told.gate_alpha == alpha
    assert by_gain[0.15] == pytest.approx(at_15, abs=0.03)
    assert by_gain[0.20] == pytest.approx(at_20, abs=0.03)


def test_pairs_and_tasks_are_those_the_experiment_leaves_to_a_comparison() -> None:
    told = report("+experiment=tabletop_iterate")
    scarce = report("+experiment=tabletop_iterate", "lineage.generations=50")
    asked = report("+experiment=tabletop_iterate", "pairs=30")

    assert (told.design.pairs, told.tasks, told.comparisons) == (60, 10, 6)
    assert scarce.design.pairs == 10 * (120 // 101), (
        "what is shared out is whole episodes of each task"
    )
    assert not scarce.design.can_promote
    assert asked.design.pairs == 30


def test_the_table_names_sizes_chances_and_costs(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "tokens=20000", "seconds=30")

    assert "62 pairs by the exact test (56 by Connor's formula)" in text
    assert "better by 15 points" in text
    assert "the configured gate: sequential, 60 pairs of 2 tasks, alpha 0.0333" in text
    assert "minutes of episodes" in text
    assert "tokens" in text
    assert "$" not in text


def test_one_pair_of_one_task_is_written_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(
        capsys, "pairs=1", "gate.n_min=1", "gate.min_tasks=1", "gate.n_max=1", "gate.alpha=0.49"
    )

    assert "the configured gate: sequential, 1 pair of 1 task" in text
    assert "were every one of 1 pair fixed" in text
    assert "1 pairs" not in text


def test_a_design_that_can_never_promote_is_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "pairs=6")

    assert "this design can never promote" in text


def test_json_says_the_same_as_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    told: JsonObject = json.loads(printed(capsys, "format=json", "gate=no_regression"))

    assert PowerReport.from_json(json.dumps(told)) == report("gate=no_regression")
    assert told["schema_version"] == "openeta_exp.command_power.v1"
    assert told["gate_alpha"] is None


@pytest.mark.parametrize("icc", [0, 1])
def test_agents_that_are_all_chance_or_have_none_can_be_planned_for(icc: int) -> None:
    told = report(f"icc={icc}", "success_rate=0.70003", "effect=0.29997")

    assert told.plan.n_max >= 5


def test_a_gain_that_no_agent_can_have_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        report("effect=0.4", "icc=2")

    assert caught.value.problems == ("command line: command.icc = 2: must be at most 1.0",)
    with pytest.raises(SettingsError, match=r"command\.effect = 0\.4: .* use at most 0\.3"):
        report("effect=0.4")
