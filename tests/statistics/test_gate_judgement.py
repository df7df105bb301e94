"""Whole comparisons through every mode: what is promoted, what is not, and why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from openeta_exp.domain.comparison import PairedComparison, progress
from openeta_exp.domain.gate import (
    LOCAL_GATE,
    AnytimeGate,
    CostPolicy,
    CredibleHarm,
    FixedGate,
    Floor,
    FloorRule,
    Gate,
    Guardrails,
    InfrastructureFilter,
    NoninferiorCheaper,
    NonInferiority,
    NoRegressionGate,
    ReportOnly,
    SequentialGate,
    Target,
    Terms,
    Tier,
)
from openeta_exp.domain.pair import Cost, Fingerprint, PairObservation, PairStatus, Side
from openeta_exp.domain.verdict import Decision, GateVerdict, Ledger
from openeta_exp.statistics.agent_model import AgentModel
from openeta_exp.statistics.flakiness import flakiness
from openeta_exp.statistics.gate import Continue, judge, review
from openeta_exp.statistics.multiplicity import next_level
from openeta_exp.statistics.paired import mcnemar_exact
from tests.statistics.paired_arms import (
    at_reset,
    broke,
    compared,
    in_order,
    key,
    lost,
    observed,
    story,
    with_candidate,
    won,
)

TERMS = Terms()
QUICK = Guardrails(cost=CostPolicy(replicates=200))
STATISTICAL: list[Gate] = [
    SequentialGate(guardrails=QUICK),
    SequentialGate(n_max="auto", guardrails=QUICK),
    LOCAL_GATE.model_copy(update={"guardrails": QUICK}),
    FixedGate(pairs=40, guardrails=QUICK),
    FixedGate(pairs=40, midp=True, guardrails=QUICK),
    AnytimeGate(n_max=60, guardrails=QUICK),
]
SKILL = NoRegressionGate(strategy=None, guardrails=QUICK)
EVERY_MODE = [*STATISTICAL, NoRegressionGate(guardrails=QUICK), SKILL]
GOOD = "wbwnbwbw" * 8
EQUAL = "bbnbbnbb" * 8
BAD = "lbnlblbb" * 8

few = settings(max_examples=30, deadline=None)


def verdict_of(comparison: PairedComparison, gate: Gate, terms: Terms = TERMS) -> GateVerdict:
    return judge(comparison, gate=gate, terms=terms)


def with_all_candidates(
    pairs: tuple[PairObservation, ...], **changes: object
) -> tuple[PairObservation, ...]:
    return tuple(with_candidate(pair, **changes) for pair in pairs)


@pytest.mark.parametrize("gate", STATISTICAL)
def test_a_candidate_that_behaves_identically_is_never_called_an_improvement(gate: Gate) -> None:
    for letters in ("b" * 60, "n" * 60, EQUAL):
        verdict = verdict_of(story(letters), gate)

        assert not verdict.promotes
        assert verdict.effect.difference == 0.0


def test_the_original_rule_promotes_an_identical_candidate_and_says_how_likely_that_was() -> None:
    verdict = verdict_of(story("bbnbbn"), SKILL)

    assert verdict.codes == ("no_regression",)
    assert verdict.identical_pass_probability == pytest.approx(1 - (1 / 3) ** 6)
    flaky = Terms(flakiness=flakiness(4, 4, both=24, neither=8))
    told = verdict_of(story("bbnbbn"), SKILL, flaky)
    assert told.identical_pass_probability == pytest.approx(0.9**6 - 0.2**6)


@pytest.mark.parametrize("gate", EVERY_MODE)
def test_the_same_tree_on_both_sides_is_no_comparison(gate: Gate) -> None:
    same = with_all_candidates(observed(GOOD), fingerprint=observed("b")[0].baseline.fingerprint)

    assert verdict_of(compared(same), gate).codes == ("incomparable:candidate_tree",)


@pytest.mark.parametrize("gate", STATISTICAL)
def test_a_candidate_twenty_points_worse_is_not_promoted(gate: Gate) -> None:
    rates = AgentModel(success_rate=0.7, icc=0.5).against(-0.2)
    generator = np.random.default_rng(20)
    cells = [rates.wins, rates.losses, rates.both, rates.neither]

    for _ in range(20):
        letters = "".join(generator.choice(list("wlbn"), p=cells, size=60))
        assert not verdict_of(story(letters), gate).promotes


def test_the_default_gate_calls_a_worse_candidate_worse() -> None:
    verdict = verdict_of(story(BAD), SequentialGate())

    assert verdict.decision is Decision.REJECT
    assert verdict.codes == ("worse",)
    assert verdict.effect.pairs == 20
    assert verdict.overrun == 44


@pytest.mark.parametrize("gate", EVERY_MODE)
def test_a_candidate_that_crashes_in_half_of_its_episodes_is_refused_and_the_reason_says_so(
    gate: Gate,
) -> None:
    verdict = verdict_of(story("wCwcbCwc" * 15), gate)

    assert not verdict.promotes
    assert "differential_exclusion" in verdict.codes
    [told] = [r.message for r in verdict.reasons if r.code == "differential_exclusion"]
    assert f"candidate only in {verdict.exclusions.candidate_breaks} pairs" in told
    assert verdict.exclusions.worst_case_losses > 0


def test_a_candidate_that_keeps_crashing_is_stopped_long_before_the_end() -> None:
    seen = review(story("wCbcwCwcnCbcwC" * 2), gate=SequentialGate(), terms=TERMS)

    assert isinstance(seen, GateVerdict)
    assert seen.codes == ("differential_exclusion",)
    assert seen.exclusions.classes == {"candidate:simulator_mcp_call_failed": 14}


def test_crashes_of_both_arms_alike_do_not_accuse_the_candidate() -> None:
    verdict = verdict_of(story("wbwXbwbw" * 8), SequentialGate())

    assert verdict.promotes
    assert verdict.exclusions.both > 0


@pytest.mark.parametrize("gate", [*STATISTICAL, NoRegressionGate(guardrails=QUICK)])
@pytest.mark.parametrize("letters", ["", "w", "l", "b", "n", "X", "C", "R"])
def test_one_pair_or_none_decides_nothing(gate: Gate, letters: str) -> None:
    verdict = verdict_of(story(letters), gate)

    assert not verdict.promotes
    assert verdict.effect.pairs == (letters in ("w", "l", "b", "n"))
    assert GateVerdict.from_json(verdict.to_json()) == verdict


@pytest.mark.parametrize("gate", EVERY_MODE)
def test_episodes_that_were_solved_at_reset_are_named_and_change_nothing_else(gate: Gate) -> None:
    kept = "wbwbwbwb" * 8
    padded = "".join(f"{letter}R" for letter in kept)

    without, verdict = verdict_of(story(kept, tasks=2), gate), verdict_of(story(padded), gate)

    assert verdict.codes == without.codes
    assert verdict.effect == without.effect
    assert verdict.exclusions.solved_at_reset > verdict.effect.pairs // 2
    assert (verdict.exclusions.share, verdict.exclusions.differential) == (0.0, False)
    at_reset = verdict.exclusions.solved_at_reset
    assert verdict.exclusions.classes == {
        "baseline:solved_at_reset": at_reset,
        "candidate:solved_at_reset": at_reset,
    }
    assert f"{at_reset} pairs excluded ({at_reset} solved at reset)" in verdict.sentence()


def test_a_crash_on_an_episode_that_was_solved_at_reset_accuses_nobody() -> None:
    at = key(0)
    pair = PairObservation(
        baseline=at_reset(at, side=Side.BASELINE), candidate=broke(at, side=Side.CANDIDATE)
    )

    seen = verdict_of(compared([pair]), SequentialGate()).exclusions

    assert (seen.broken, seen.solved_at_reset, seen.worst_case_losses) == (0, 1, 0)


def test_the_original_filter_by_arm_drops_an_episode_that_one_arm_found_solved() -> None:
    gate = NoRegressionGate(
        strategy=None, infrastructure_filter=InfrastructureFilter.PER_ARM, guardrails=QUICK
    )
    at = key(0)
    odd = PairObservation(
        baseline=won(at, side=Side.BASELINE), candidate=at_reset(at, side=Side.CANDIDATE)
    )

    assert verdict_of(compared([odd, *observed("wb", start=1)]), gate).promotes


@pytest.mark.parametrize("gate", STATISTICAL)
def test_when_every_pair_broke_the_verdict_is_open_and_says_both_reasons(gate: Gate) -> None:
    verdict = verdict_of(story("X" * 40), gate)

    assert verdict.decision is Decision.INCONCLUSIVE
    assert {"differential_exclusion", "too_few_pairs"} <= set(verdict.codes)
    assert verdict.exclusions.share == 1.0
    assert verdict.effect.difference == 0.0
    assert verdict.e_value == 1.0


@pytest.mark.parametrize("gate", STATISTICAL)
def test_a_single_task_is_too_few(gate: Gate) -> None:
    verdict = verdict_of(story("w" * 60, tasks=1), gate)

    assert verdict.codes == ("too_few_tasks",)


def test_a_better_candidate_is_promoted_with_all_evidence() -> None:
    verdict = verdict_of(story(GOOD), SequentialGate())

    assert verdict.promotes
    assert verdict.codes == ("superior",)
    assert (verdict.mode, verdict.tier, verdict.alpha, verdict.n_max) == (
        "sequential",
        Tier.PUBLISH,
        0.05,
        60,
    )
    effect = verdict.effect
    assert (effect.pairs, effect.wins, effect.losses, effect.both, effect.neither) == (
        20,
        10,
        0,
        7,
        3,
    )
    assert verdict.p_value == pytest.approx(mcnemar_exact(10, 0))
    assert verdict.e_value > 20
    assert effect.tango_95.low > 0
    assert effect.win_ratio is None
    assert effect.win_ratio_high is None
    assert len(verdict.improved) == 10
    assert [point.pairs for point in verdict.path] == [20]
    assert {row.metric for row in verdict.guardrails} == {
        "need_human",
        "fail",
        "runtime_success",
        "tokens",
        "tool_calls",
        "wall_s",
    }
    assert verdict.more_pairs is None
    assert verdict.sentence().startswith(
        "PROMOTE superior: 10 fixed, 0 regressed of 20 pairs, +50 points"
    )


def test_looks_come_in_batches_and_stop_at_the_same_pair_whenever_they_are_asked() -> None:
    pairs = observed("bbnbbwbnbwbbwbnbwbbw" + "w" * 40)
    schedule = in_order(pair.key for pair in pairs)
    stops = set()
    for finished in range(len(pairs) + 1):
        prefix = progress(schedule, pairs[:finished]).comparison
        match review(prefix, gate=SequentialGate(), terms=TERMS):
            case GateVerdict() as verdict:
                stops.add((verdict.effect.pairs, verdict.p_value, verdict.codes))
            case Continue(pairs=seen, next_look=next_look):
                assert seen < next_look <= 60
                assert next_look == max(20, (seen // 4 + 1) * 4)

    assert len(stops) == 1


def test_pairs_that_ran_ahead_change_nothing() -> None:
    pairs = observed(GOOD)
    schedule = in_order(pair.key for pair in pairs)
    without = progress(schedule, pairs[:10]).comparison
    ahead = progress(schedule, [*pairs[:10], *pairs[11:]]).comparison

    assert review(without, gate=SequentialGate(), terms=TERMS) == review(
        ahead, gate=SequentialGate(), terms=TERMS
    )


def test_what_ran_after_the_stop_changes_nothing_however_it_came_to_run() -> None:
    pairs = observed(GOOD)
    gate = SequentialGate(guardrails=QUICK)
    stopped = verdict_of(compared(pairs), gate)
    moved = Fingerprint(tree="tree-1", pins={"model": "m-2", "simulator": "s-1"})
    later = with_all_candidates(pairs[stopped.effect.pairs :], fingerprint=moved)

    verdict = verdict_of(compared((*pairs[: stopped.effect.pairs], *later)), gate)

    assert later
    assert verdict.promotes
    assert verdict.effect == stopped.effect


def test_a_comparison_that_uses_up_its_pairs_says_how_many_more_would_decide() -> None:
    verdict = verdict_of(story("wbnblbbwbnbbbwb" + "bwnblbbwbnbbbwb" * 3), SequentialGate())

    assert verdict.codes == ("budget",)
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.more_pairs is not None
    assert verdict.more_pairs > 0
    needed = 60 + verdict.more_pairs
    assert (
        f"about {verdict.more_pairs} more pairs would decide, if the gate could use {needed}"
        in verdict.sentence()
    )


@pytest.mark.parametrize(
    ("gate", "more"), [(SequentialGate(), 15), (FixedGate(pairs=60), 15), (LOCAL_GATE, 7)]
)
def test_a_gate_that_has_too_few_pairs_to_decide_asks_for_what_it_needs(
    gate: Gate, more: int
) -> None:
    verdict = verdict_of(story("wwwbb"), gate)

    assert verdict.codes == ("too_few_pairs",)
    assert verdict.more_pairs == more
    assert verdict.sentence().endswith(f"about {more} more pairs would decide")


def test_more_pairs_are_not_promised_where_something_else_is_missing() -> None:
    one_task = verdict_of(story("wwwwb" * 4, tasks=1), FixedGate(pairs=20))
    crashes = verdict_of(story("wCbcC" * 4), FixedGate(pairs=20))

    assert one_task.codes == ("too_few_tasks",)
    assert "differential_exclusion" in crashes.codes
    assert (one_task.more_pairs, crashes.more_pairs) == (None, None)


def test_a_hopeless_comparison_is_given_up_early() -> None:
    verdict = verdict_of(story(EQUAL), SequentialGate())

    assert verdict.codes == ("futile",)
    assert verdict.effect.pairs < 60


def test_fitted_sizes_are_told() -> None:
    verdict = verdict_of(story(EQUAL), SequentialGate(n_max="auto"))

    assert verdict.n_max == 40


def test_the_ledger_lowers_the_level_and_ends_it_when_used_up() -> None:
    comparison = story("wbnbwbnbbwbbnbwbbwbb" * 3)
    ledger = Ledger(horizon=10)

    strict = verdict_of(comparison, SequentialGate(), Terms(alpha_cap=next_level(ledger)))
    loose = verdict_of(comparison, SequentialGate())
    nothing = verdict_of(comparison, SequentialGate(), Terms(alpha_cap=0.0))

    assert strict.alpha == pytest.approx(0.02)
    assert loose.promotes
    assert strict.effect.pairs > loose.effect.pairs
    assert nothing.codes == ("budget",)
    updated = ledger.with_verdict(loose, generation=0, comparison_id="g0")
    assert next_level(updated) == pytest.approx(0.04)
    assert updated.claimed_gain == loose.effect.difference


@few
@given(st.text("wlbn", max_size=70), st.sampled_from(STATISTICAL))
def test_a_verdict_never_promotes_what_is_not_ahead_and_survives_json(
    letters: str, gate: Gate
) -> None:
    verdict = verdict_of(story(letters), gate)

    assert GateVerdict.from_json(verdict.to_json()) == verdict
    if verdict.promotes:
        assert verdict.effect.wins > verdict.effect.losses
        assert verdict.p_value is not None
        assert verdict.p_value <= 0.2
    if "worse" in verdict.codes:
        assert verdict.effect.losses > verdict.effect.wins


@few
@given(st.text("wlbn", min_size=40, max_size=70), st.sampled_from(STATISTICAL))
def test_both_arms_are_never_superior_to_each_other(letters: str, gate: Gate) -> None:
    mirrored = letters.translate(str.maketrans("wl", "lw"))

    ours, theirs = verdict_of(story(letters), gate), verdict_of(story(mirrored), gate)

    assert not (ours.promotes and theirs.promotes)


def test_a_single_violation_stops_the_comparison_at_once() -> None:
    pairs = list(observed("wwb"))
    pairs[1] = with_candidate(pairs[1], safety_violations=2, contract_violations=1)

    verdict = review(compared(pairs), gate=SequentialGate(), terms=TERMS)

    assert isinstance(verdict, GateVerdict)
    assert verdict.decision is Decision.REJECT
    assert verdict.codes == ("safety", "contract")
    assert str(pairs[1].key) in verdict.reasons[0].message


def test_a_violation_counts_on_pairs_that_ran_ahead_or_broke_too() -> None:
    pairs = observed("wwC")
    guilty = with_candidate(pairs[2], safety_violations=1)
    schedule = in_order(pair.key for pair in pairs)

    seen = review(
        progress(schedule, [pairs[0], guilty]).comparison, gate=SequentialGate(), terms=TERMS
    )

    assert isinstance(seen, GateVerdict)
    assert seen.codes == ("safety",)


def test_violations_of_the_baseline_are_not_the_candidates_fault() -> None:
    pairs = [
        pair.model_copy(
            update={"baseline": pair.baseline.model_copy(update={"safety_violations": 1})}
        )
        for pair in observed(GOOD)
    ]

    assert verdict_of(compared(pairs), SequentialGate()).promotes


def test_a_candidate_that_asks_people_more_often_is_blocked() -> None:
    pairs = [
        with_candidate(pair, human_requests=1) if index % 2 else pair
        for index, pair in enumerate(observed(GOOD))
    ]

    verdict = verdict_of(compared(pairs), SequentialGate())
    shown = verdict_of(
        compared(pairs), SequentialGate(guardrails=Guardrails(need_human=ReportOnly()))
    )

    assert verdict.decision is Decision.REJECT
    assert verdict.codes == ("guardrail:need_human",)
    assert verdict.p_value is not None
    assert verdict.p_value <= 0.05
    assert "need_human 0 to 10" in verdict.sentence()
    assert shown.promotes


def test_a_decision_that_does_not_follow_from_its_reasons_is_no_verdict() -> None:
    fields = verdict_of(story(GOOD), SequentialGate()).model_dump()

    with pytest.raises(ValidationError, match="does not follow"):
        GateVerdict.model_validate(fields | {"decision": Decision.REJECT})


def test_ten_thousand_pairs_are_judged_in_the_open_ended_mode() -> None:
    verdict = verdict_of(story("bbnw" * 2500), AnytimeGate(alpha=1e-300, guardrails=QUICK))

    assert verdict.promotes
    assert len(verdict.path) <= 400


def test_a_candidate_whose_runtime_reports_fewer_successes_is_blocked() -> None:
    pairs = with_all_candidates(observed(GOOD), status=PairStatus.NEED_HUMAN)

    verdict = verdict_of(compared(pairs), SequentialGate())

    assert {"guardrail:need_human", "guardrail:runtime_success"} <= set(verdict.codes)
    [row] = [row for row in verdict.guardrails if row.metric == "runtime_success"]
    assert row.candidate == 0.0
    assert row.change < 0
    assert row.low <= row.change <= row.high


def test_a_candidate_that_costs_half_as_much_again_is_blocked_by_name() -> None:
    dear = Cost(tokens_in=1800, tokens_out=200, tool_calls=10, wall_s=5.0, price_usd=0.1)

    verdict = verdict_of(compared(with_all_candidates(observed(GOOD), cost=dear)), SequentialGate())
    free = verdict_of(
        compared(with_all_candidates(observed(GOOD), cost=dear)),
        SequentialGate(guardrails=Guardrails(cost=None)),
    )

    assert verdict.codes == ("guardrail:tokens",)
    assert "tokens ×2.00" in verdict.sentence()
    assert free.promotes


def test_a_slightly_dearer_candidate_is_promoted_with_a_warning() -> None:
    policy = CostPolicy(warn_ratio=1.05)
    dear = Cost(tokens_in=990, tokens_out=110, tool_calls=10, wall_s=5.0)

    verdict = verdict_of(
        compared(with_all_candidates(observed(GOOD), cost=dear)),
        SequentialGate(guardrails=Guardrails(cost=policy)),
    )

    assert verdict.promotes
    assert [row.metric for row in verdict.guardrails if row.warns] == ["tokens"]


def test_the_strict_guardrail_asks_for_proof_that_twenty_pairs_cannot_give() -> None:
    gate = SequentialGate(guardrails=Guardrails(need_human=NonInferiority(margin=0.05)))

    assert verdict_of(story(GOOD), gate).codes == ("guardrail:need_human",)


def test_a_single_task_that_got_worse_beyond_chance_blocks() -> None:
    letters = ["l" if index % 4 == 3 else "w" for index in range(60)]

    verdict = verdict_of(story("".join(letters)), FixedGate(pairs=60))

    assert verdict.codes == ("guardrail:task",)
    assert "task-3" in verdict.reasons[0].message
    assert [task.losses for task in verdict.tasks] == [0, 0, 0, 15]


def test_the_floor_asks_for_an_absolute_rate() -> None:
    strict = SequentialGate(floor=Floor(rate=0.95))
    loose = SequentialGate(floor=Floor(rate=0.80, rule=FloorRule.POINT))

    assert verdict_of(story(GOOD), strict).codes == ("floor",)
    assert verdict_of(story(GOOD), loose).promotes


@pytest.mark.parametrize("gate", EVERY_MODE)
def test_arms_that_ran_on_different_models_are_incomparable(gate: Gate) -> None:
    moved = Fingerprint(tree="tree-1", pins={"model": "m-2", "simulator": "s-1"})

    verdict = verdict_of(compared(with_all_candidates(observed(GOOD), fingerprint=moved)), gate)

    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.codes == ("incomparable:model",)
    assert verdict.effect.pairs == 0


def test_every_precondition_that_fails_is_listed() -> None:
    comparison = story(GOOD)
    spent, trained = comparison.pairs[0].key, comparison.pairs[1].key
    terms = Terms(
        accepted_tree="tree-9",
        schedule_digest=in_order([key(1)]).content_digest,
        train_keys=(trained,),
        spent_keys=(spent,),
        shared_baseline=True,
        flakiness=flakiness(0, 6, both=20, neither=14),
    )

    assert set(verdict_of(comparison, SequentialGate(), terms).codes) == {
        "incomparable:baseline_tree",
        "incomparable:schedule",
        "incomparable:train_keys",
        "incomparable:held_out_reuse",
        "incomparable:independence",
        "aa_failed",
    }


def test_a_recorded_schedule_and_the_accepted_tree_are_accepted() -> None:
    comparison = story(GOOD)
    terms = Terms(accepted_tree="tree-0", schedule_digest=comparison.schedule_digest)

    assert verdict_of(comparison, SequentialGate(), terms).promotes


def test_keys_may_be_used_again_where_the_evidence_survives_dependence() -> None:
    comparison = story(GOOD)
    terms = Terms(spent_keys=(comparison.pairs[0].key,), held_out_reuse=True)

    assert verdict_of(comparison, SequentialGate(), terms).codes == ("incomparable:independence",)
    assert verdict_of(comparison, AnytimeGate(), terms).promotes


def test_a_pool_without_fresh_keys_is_told() -> None:
    terms = Terms(held_out_exhausted=True)

    assert verdict_of(story(""), SequentialGate(), terms).codes == (
        "too_few_pairs",
        "too_few_tasks",
        "heldout_exhausted",
    )
    short = verdict_of(story("wbnbbwbnlbbwbnbwbbnb"), SequentialGate(gamma=0.0), terms)
    assert short.codes == ("heldout_exhausted",)


def test_the_fixed_test_decides_once_at_its_size() -> None:
    gate = FixedGate(pairs=24, n_min=20)
    pairs = observed("w" * 24)
    schedule = in_order(pair.key for pair in pairs)

    early = review(progress(schedule, pairs[:23]).comparison, gate=gate, terms=TERMS)
    ready = review(progress(schedule, pairs).comparison, gate=gate, terms=TERMS)

    assert early == Continue(23, 24, 24)
    assert isinstance(ready, GateVerdict)
    assert ready.codes == ("superior",)


def test_a_gain_over_the_suite_need_not_hold_for_new_tasks() -> None:
    letters = "".join("w" if index % 5 == 0 else "b" for index in range(40))
    suite = FixedGate(pairs=40)
    beyond = FixedGate(pairs=40, target=Target.NEW_TASKS)

    assert verdict_of(story(letters, tasks=5), suite).codes == ("superior",)
    assert verdict_of(story(letters, tasks=5), beyond).codes == ("budget",)
    assert verdict_of(story("w" * 40, tasks=4), beyond).codes == ("too_few_tasks",)
    assert verdict_of(story("wwb" * 20, tasks=5), FixedGate(target=Target.NEW_TASKS)).promotes


def test_a_cheaper_candidate_that_is_hardly_worse_is_promoted_where_that_was_asked() -> None:
    cheap = Cost(tokens_in=450, tokens_out=50, tool_calls=10, wall_s=5.0)
    letters = "bbnbbnbb" * 7 + "wlbb"
    pairs = compared(with_all_candidates(observed(letters), cost=cheap))
    rule = NoninferiorCheaper(margin=0.10)

    assert verdict_of(pairs, FixedGate(pairs=60)).codes == ("budget",)
    promoted = verdict_of(pairs, FixedGate(pairs=60, noninferior_cheaper=rule))
    assert promoted.promotes
    assert promoted.codes == ("noninferior_cheaper",)
    dear = verdict_of(story(letters), FixedGate(pairs=60, noninferior_cheaper=rule))
    assert dear.codes == ("budget",)


def test_the_anytime_gate_stops_as_soon_as_the_evidence_is_twenty() -> None:
    verdict = review(story("wwwwwwwbb"), gate=AnytimeGate(), terms=TERMS)

    assert isinstance(verdict, GateVerdict)
    assert verdict.effect.pairs == 7
    assert verdict.e_value >= 20
    assert verdict.p_value == pytest.approx(1 / verdict.e_value)


def test_the_anytime_gate_goes_on_without_end_unless_a_gain_is_ruled_out() -> None:
    assert review(story("bn" * 8), gate=AnytimeGate(), terms=TERMS) == Continue(16, 17, None)
    futile = review(story("bn" * 60), gate=AnytimeGate(), terms=TERMS)
    assert isinstance(futile, GateVerdict)
    assert futile.codes == ("futile",)
    worse = review(story("l" * 12), gate=AnytimeGate(delta_min=0.9), terms=TERMS)
    assert isinstance(worse, GateVerdict)
    assert set(worse.codes) <= {"worse", "futile"}


def test_reruns_of_one_episode_are_one_observation() -> None:
    pairs = [
        PairObservation(baseline=lost(at, side=Side.BASELINE), candidate=won(at))
        for index in range(4)
        for rep in range(10)
        for at in [key(index, rep=rep)]
    ]

    repeated = verdict_of(compared(pairs), AnytimeGate())
    fresh = verdict_of(story("w" * 40), AnytimeGate())

    assert verdict_of(compared(pairs), SequentialGate()).codes == ("incomparable:repeats",)
    assert repeated.codes == ("budget",)
    assert fresh.promotes


def test_the_original_strategy_gate_lists_every_threshold_that_is_missed() -> None:
    verdict = verdict_of(story("wbnl", tasks=1), NoRegressionGate())

    assert verdict.decision is Decision.REJECT
    assert verdict.codes == (
        "regression",
        "floor",
        "too_few_pairs",
        "too_few_pairs",
        "too_few_tasks",
    )
    ready = Terms(canary_attempts=2)
    assert verdict_of(story("b" * 20), NoRegressionGate(), ready).codes == ("no_regression",)
    assert verdict_of(story("b" * 18 + "nn"), NoRegressionGate(), ready).codes == ("floor",)


def test_the_original_rule_compares_the_runtimes_own_counts() -> None:
    def told(**changes: object) -> tuple[str, ...]:
        return verdict_of(compared(with_all_candidates(observed("bb"), **changes)), SKILL).codes

    assert told() == ("no_regression",)
    assert told(status=PairStatus.FAIL) == ("guardrail:runtime_success", "guardrail:fail")
    assert told(status=PairStatus.NEED_HUMAN) == (
        "guardrail:runtime_success",
        "guardrail:need_human",
    )
    assert verdict_of(story("nn"), SKILL).codes == ("floor",)


def test_the_original_filter_by_arm_turns_a_crash_into_a_regression() -> None:
    per_arm = SKILL.model_copy(update={"infrastructure_filter": InfrastructureFilter.PER_ARM})

    assert verdict_of(story("bbbbbC"), per_arm).codes == (
        "regression",
        "guardrail:objective_success",
        "guardrail:runtime_success",
    )
    assert verdict_of(story("bbbbbC"), SKILL).promotes
    assert review(story("C" * 12), gate=per_arm, terms=TERMS) == Continue(0, 12, 12)


def test_the_original_rule_waits_for_every_pair() -> None:
    assert review(story("bbb"), gate=SKILL, terms=TERMS) == Continue(3, 3, 3)


def test_the_seed_of_every_resampling_is_told_and_can_be_chosen() -> None:
    comparison = story(GOOD)

    derived = verdict_of(comparison, SequentialGate())
    chosen = verdict_of(comparison, SequentialGate(), Terms(resampling_seed=5))

    assert derived.resampling_seed == int(comparison.schedule_digest[:8], 16)
    assert chosen.resampling_seed == 5


def test_policies_are_told_apart_in_the_table() -> None:
    guardrails = Guardrails(
        need_human=CredibleHarm(alpha=0.01), fail=NonInferiority(), runtime_success=ReportOnly()
    )

    verdict = verdict_of(story(GOOD), SequentialGate(guardrails=guardrails))

    assert [row.policy for row in verdict.guardrails[:3]] == [
        "credible_harm",
        "non_inferiority",
        "report_only",
    ]
