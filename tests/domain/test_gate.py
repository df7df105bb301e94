from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from openeta_exp.domain.gate import (
    LOCAL_GATE,
    PUBLISH_GATE,
    AnytimeGate,
    FixedGate,
    Gate,
    GateTiers,
    NoRegressionGate,
    SequentialGate,
    StrategyThresholds,
    Tier,
)
from openeta_exp.domain.verdict import Decision, Ground, Reason, decide

VOCABULARY = {
    Decision.PROMOTE: {"superior", "noninferior_cheaper", "no_regression"},
    Decision.REJECT: {
        "worse",
        "futile",
        "guardrail",
        "safety",
        "contract",
        "floor",
        "regression",
    },
    Decision.INCONCLUSIVE: {
        "budget",
        "too_few_pairs",
        "too_few_tasks",
        "incomparable",
        "differential_exclusion",
        "aa_failed",
        "heldout_exhausted",
    },
}


def reason(ground: Ground) -> Reason:
    return Reason(ground=ground, message="because")


def test_the_vocabulary_of_reasons_is_closed() -> None:
    spoken = {
        decision: {str(ground) for ground in Ground if ground.decision is decision}
        for decision in Decision
    }

    assert spoken == VOCABULARY


def test_one_rejecting_reason_outweighs_everything() -> None:
    assert decide((reason(Ground.BUDGET), reason(Ground.SAFETY))) is Decision.REJECT
    assert decide((reason(Ground.SUPERIOR), reason(Ground.BUDGET))) is Decision.INCONCLUSIVE
    assert decide((reason(Ground.SUPERIOR),)) is Decision.PROMOTE
    with pytest.raises(ValueError, match="needs a reason"):
        decide(())


def test_a_reason_names_what_it_concerns() -> None:
    guardrail = Reason(ground=Ground.GUARDRAIL, subject="need_human", message="4 to 9")

    assert guardrail.code == "guardrail:need_human"
    assert reason(Ground.WORSE).code == "worse"


def test_the_default_gate_is_the_sequential_one_with_the_published_settings() -> None:
    tiers = GateTiers()

    assert tiers.of(Tier.PUBLISH) == PUBLISH_GATE == SequentialGate()
    assert (PUBLISH_GATE.alpha, PUBLISH_GATE.n_max, PUBLISH_GATE.n_min) == (0.05, 60, 20)
    assert tiers.of(Tier.LOCAL) == LOCAL_GATE
    assert (LOCAL_GATE.alpha, LOCAL_GATE.n_max, LOCAL_GATE.n_min) == (0.20, 40, 12)


def test_the_original_rule_keeps_its_thresholds() -> None:
    thresholds = NoRegressionGate().strategy

    assert thresholds == StrategyThresholds(
        min_canary_attempts=2, min_held_out_attempts=20, min_success_rate=0.95, min_tasks=2
    )


@pytest.mark.parametrize(
    "gate",
    [
        SequentialGate(n_max="auto"),
        FixedGate(midp=True),
        AnytimeGate(n_max=80),
        NoRegressionGate(strategy=None),
    ],
)
def test_every_mode_is_told_apart_by_its_name(gate: Gate) -> None:
    adapter: TypeAdapter[Gate] = TypeAdapter(Gate)

    assert adapter.validate_json(gate.to_json()) == gate


def test_a_gate_that_ends_before_it_may_decide_is_refused() -> None:
    with pytest.raises(ValidationError, match="cannot decide"):
        SequentialGate(n_max=6)
    with pytest.raises(ValidationError, match="cannot decide"):
        FixedGate(pairs=6)
    with pytest.raises(ValidationError, match="must be ordered"):
        SequentialGate(n_max="auto", n_max_bounds=(10, 150))


def test_a_level_of_zero_or_one_is_no_level() -> None:
    for alpha in (0.0, 1.0):
        with pytest.raises(ValidationError):
            SequentialGate(alpha=alpha)
