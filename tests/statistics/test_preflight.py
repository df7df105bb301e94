from __future__ import annotations

import numpy as np
import pytest

from openeta_exp.domain.gate import (
    LOCAL_GATE,
    PUBLISH_GATE,
    AnytimeGate,
    FixedGate,
    Floor,
    Gate,
    Guardrails,
    NoRegressionGate,
    SequentialGate,
    Terms,
)
from openeta_exp.statistics.agent_model import AgentModel
from openeta_exp.statistics.flakiness import flakiness
from openeta_exp.statistics.gate import judge
from openeta_exp.statistics.gate_operating import most_pairs, operating_point
from openeta_exp.statistics.preflight import PairPrice, design_report
from tests.statistics.paired_arms import story

CANARY = Terms(canary_attempts=2)


@pytest.mark.parametrize(
    ("gate", "pairs", "tasks", "because"),
    [
        (SequentialGate(), 6, 3, "too_few_pairs"),
        (SequentialGate(), 60, 1, "too_few_tasks"),
        (FixedGate(pairs=4, n_min=4), 4, 2, "budget"),
        (FixedGate(), 12, 4, "too_few_pairs"),
        (AnytimeGate(), 6, 3, "budget"),
        (NoRegressionGate(), 6, 2, "too_few_pairs"),
        (SequentialGate(floor=Floor(rate=0.95)), 40, 4, "floor"),
        # All fixed stops after 20 pairs, which certify 0.86; a slower success certifies more.
        (SequentialGate(floor=Floor(rate=0.90)), 60, 4, None),
        (SequentialGate(alpha=0.00001, n_max=20), 20, 4, None),
        # The same with sizes at which every number of fixed pairs cannot be judged whole.
        (SequentialGate(n_max=1000, floor=Floor(rate=0.95)), 1000, 4, None),
        (SequentialGate(n_max="auto", floor=Floor(rate=0.95)), 1000, 4, "floor"),
        (AnytimeGate(floor=Floor(rate=0.93)), 1000, 4, None),
        (AnytimeGate(floor=Floor(rate=0.9999)), 1000, 4, "floor"),
        (FixedGate(pairs=1000, floor=Floor(rate=0.999)), 1000, 4, "floor"),
    ],
)
def test_a_design_that_no_outcome_can_promote_is_refused_with_the_reason(
    gate: Gate, pairs: int, tasks: int, because: str | None
) -> None:
    report = design_report(gate, pairs=pairs, tasks=tasks, terms=CANARY, runs=200)

    assert report.can_promote is (because is None)
    if because is not None:
        assert because in report.problems[0]
        assert report.problems[0].startswith("this design can never promote")
        assert report.rows == ()


@pytest.mark.parametrize(
    ("gate", "pairs"),
    [
        (PUBLISH_GATE, 60),
        (LOCAL_GATE, 40),
        (FixedGate(), 60),
        (AnytimeGate(), 60),
        (NoRegressionGate(), 20),
        (NoRegressionGate(strategy=None), 6),
    ],
)
def test_a_sound_design_tells_what_it_does_to_good_bad_and_equal_candidates(
    gate: Gate, pairs: int
) -> None:
    report = design_report(gate, pairs=pairs, tasks=5, terms=CANARY, runs=1500)

    by_effect = {row.effect: row.point for row in report.rows}
    assert report.can_promote
    assert by_effect[-0.2].promote <= by_effect[0.0].promote <= by_effect[0.2].promote
    assert all(point.mean_pairs <= report.most_pairs for point in by_effect.values())
    assert "that changes nothing" in " ".join(report.sentences())


def test_a_level_that_the_ledger_used_up_cannot_promote() -> None:
    report = design_report(SequentialGate(), pairs=60, tasks=5, terms=Terms(alpha_cap=0.0))

    assert not report.can_promote
    assert "ledger" in report.problems[0]


def test_a_weak_design_warns_of_what_it_would_take() -> None:
    report = design_report(FixedGate(pairs=20), pairs=20, tasks=5)

    assert report.can_promote
    assert report.warnings == (
        "a gain of 15 points needs about 62 pairs for a power of 80 %, this design uses at most 20",
    )
    short = design_report(SequentialGate(), pairs=40, tasks=5, runs=200)
    assert short.warnings[0] == "40 pairs are available, the test could use 60"


def test_the_original_rule_is_told_to_have_no_error_rate() -> None:
    report = design_report(NoRegressionGate(strategy=None), pairs=6, tasks=3)

    assert report.warnings == (
        "this rule has no controlled error rate: it would promote an identical agent with "
        "probability 0.38",
    )


def test_measured_flakiness_replaces_the_typical_agent() -> None:
    measured = Terms(flakiness=flakiness(1, 1, both=34, neither=4))

    report = design_report(SequentialGate(), pairs=60, tasks=5, terms=measured, runs=200)

    assert report.model.success_rate == pytest.approx(0.875)
    assert report.model.icc == pytest.approx(1 - 0.05 / (2 * 0.875 * 0.125))
    assert max(row.effect for row in report.rows) == 0.10


def test_costs_are_forecast_where_a_price_is_known() -> None:
    price = PairPrice(tokens=20_000, usd=0.25, seconds=30)

    report = design_report(SequentialGate(), pairs=60, tasks=5, price=price, runs=200)

    assert "(1,200,000 tokens, $15.00, 30 min of episodes)" in report.sentences()[0]
    assert (
        "tokens" not in design_report(SequentialGate(), pairs=60, tasks=5, runs=200).sentences()[0]
    )


def test_a_schedule_holds_what_the_gate_can_use() -> None:
    assert most_pairs(SequentialGate(), available=500) == 60
    assert most_pairs(SequentialGate(n_max="auto"), available=500) == 150
    assert most_pairs(FixedGate(pairs=80), available=70) == 70
    assert most_pairs(AnytimeGate(), available=500) == 500
    assert most_pairs(AnytimeGate(n_max=100), available=500) == 100
    assert most_pairs(NoRegressionGate(), available=6) == 6


@pytest.mark.parametrize(
    "gate",
    [
        SequentialGate(guardrails=Guardrails(cost=None)),
        FixedGate(pairs=30, guardrails=Guardrails(cost=None)),
        AnytimeGate(n_max=40, guardrails=Guardrails(cost=None), min_tasks=1),
    ],
)
def test_whole_judgements_promote_as_often_as_the_characteristics_say(gate: Gate) -> None:
    """End to end, guardrails included, on 80 comparisons of one kind."""
    rates = AgentModel(success_rate=0.6, icc=0.5).against(0.20)
    generator = np.random.default_rng(13)
    cells = [rates.wins, rates.losses, rates.both, rates.neither]
    expected = operating_point(gate, rates, pairs=60, runs=4000)

    promoted, used = 0, 0
    for _ in range(80):
        letters = "".join(generator.choice(list("wlbn"), p=cells, size=60))
        verdict = judge(story(letters), gate=gate, terms=Terms())
        promoted += verdict.promotes
        used += verdict.effect.pairs

    # Guardrails may block a few: four standard errors, and two points.
    error = (expected.promote * (1 - expected.promote) / 80) ** 0.5
    assert promoted / 80 == pytest.approx(expected.promote, abs=4 * error + 0.02)
    assert used / 80 == pytest.approx(expected.mean_pairs, rel=0.15)
