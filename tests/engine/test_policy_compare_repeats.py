"""Several runs of every scenario: what they are worth, and what breaks among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import ComparisonEnded
from openeta_exp.domain.gate import InfrastructureFilter, NoRegressionGate, SequentialGate, Terms
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.pair import PairObservation, Side
from openeta_exp.domain.policy_comparison import Standing
from openeta_exp.domain.verdict import Decision, Ground
from openeta_exp.engine.policy_compare_gate import TwoSidedRule, sized
from openeta_exp.engine.policy_compare_repeats import by_scenario
from openeta_exp.engine.policy_compare_verdict import Judged, judge_all
from tests.engine.test_policy_compare import compared, plan, x_of
from tests.statistics import paired_arms

pytestmark = pytest.mark.anyio


def runs(scenarios: Sequence[str]) -> PairedComparison:
    """A word a scenario, a letter of `paired_arms.ENDINGS` a run."""
    pairs = []
    for index, word in enumerate(scenarios):
        for repeat, letter in enumerate(word):
            baseline, candidate = paired_arms.ENDINGS[letter]
            at = paired_arms.key(index, rep=repeat)
            pairs.append(
                PairObservation(
                    baseline=baseline(at, side=Side.BASELINE),
                    candidate=candidate(at, side=Side.CANDIDATE),
                )
            )
    return paired_arms.compared(pairs)


def judged(
    scenarios: Sequence[str], *, gate: SequentialGate | NoRegressionGate | None = None
) -> Judged:
    comparison = runs(scenarios)
    fitting = sized(gate or SequentialGate(), units=len(scenarios), tasks=4, complete=True)
    rule = TwoSidedRule(gate=fitting, terms=Terms(), complete=True, repeats=len(scenarios[0]))
    return judge_all({"b": comparison}, rule=rule, margin=0.1)["b"]


def test_one_win_in_a_hundred_runs_does_not_make_policies_equivalent() -> None:
    ties = ["bbbbb"] * 20

    alike = judged(ties)
    nearly = judged([*ties[1:], "bbwbb"])

    assert alike.standing is nearly.standing is Standing.INCONCLUSIVE
    assert alike.difference is not None
    assert (alike.difference.low, alike.difference.high) == pytest.approx((-0.161, 0.161), abs=1e-3)
    assert nearly.difference is not None
    assert nearly.difference.low < -0.15


def test_many_scenarios_that_hardly_differ_are_equivalent() -> None:
    found = judged(["bbb"] * 40 + ["wbl"] * 40)

    assert found.standing is Standing.EQUIVALENT
    assert found.equivalence is not None
    assert found.equivalence.high == pytest.approx(-found.equivalence.low)
    assert 0.03 < found.equivalence.high < 0.06, "a kind of scenario may not have turned up"


def test_the_verdict_in_the_journal_has_the_interval_that_is_shown() -> None:
    """Not that of a pair a scenario, which a scenario won by one run of five counts in full."""
    found = judged(["wnnnn", "bbbbb", "bbbbb", "bbbbl", "bbbbb", "wnnnn"] * 5)

    shown, told = found.difference, found.announced
    assert shown is not None
    assert told.effect.difference == pytest.approx(5 / 150) == shown.value
    assert (told.effect.tango_95.low, told.effect.tango_95.high) == (shown.low, shown.high)
    equal = found.equivalence
    assert equal is not None
    assert (told.effect.tango_90.low, told.effect.tango_90.high) == (equal.low, equal.high)
    assert "+3 points (95 % CI" in told.sentence()
    assert (told.effect.wins, told.effect.losses, told.effect.pairs) == (10, 5, 30)
    assert {each.task_id: each.difference for each in told.tasks} == {
        name: pytest.approx(part.difference.value)
        for name, part in found.by_task.items()
        if part.difference is not None
    }


def breaks_on_the_last(spec: EpisodeSpec) -> bool | None:
    return None if spec.repeat == 2 else True


def loses_the_first(spec: EpisodeSpec) -> bool:
    return spec.repeat > 0


async def test_a_candidate_that_breaks_where_it_would_lose_is_not_promoted() -> None:
    """Both solve two runs of three. One of the candidate's breaks instead of being lost."""
    of = plan(
        {"first": loses_the_first, "brittle": breaks_on_the_last},
        repeats=3,
        max_missing_share=0.5,
    )

    found, journal = await compared(of)

    verdict = found["brittle"].judged.judgement.better
    seen, scenarios = verdict.exclusions, verdict.effect.pairs
    assert found["brittle"].judged.standing is Standing.INCONCLUSIVE
    assert verdict.codes == ("differential_exclusion",)
    assert (seen.candidate_only, seen.baseline_only, seen.broken) == (scenarios, 0, scenarios)
    assert (seen.candidate_breaks, seen.baseline_breaks) == (scenarios, 0)
    assert seen.share == pytest.approx(1 / 3)
    assert (seen.worst_case_wins, seen.worst_case_losses) == (0, 0)
    assert f"{scenarios} of {3 * scenarios} pairs of runs (33 %)" in verdict.reasons[0].message
    assert _decisions(journal) == [Decision.INCONCLUSIVE]


async def test_breaking_until_it_is_won_is_seen_though_nothing_is_missing() -> None:
    tried = Counter[tuple[int, int]]()

    def solves(spec: EpisodeSpec) -> bool | None:
        at = (x_of(spec), spec.repeat)
        tried[at] += 1
        return None if spec.repeat == 2 and tried[at] == 1 else True

    found, _ = await compared(
        plan({"first": loses_the_first, "again": solves}, scenarios=24, repeats=3)
    )

    verdict = found["again"].judged.judgement.better
    assert found["again"].missing == verdict.exclusions.broken == 0
    assert verdict.exclusions.candidate_breaks == verdict.effect.pairs
    assert verdict.codes == ("differential_exclusion",)


def test_runs_that_break_together_are_one_sign_of_who_breaks() -> None:
    """Nine broken runs in three scenarios are no more than three scenarios by chance."""
    found = judged(["ccc"] * 3 + ["www"] * 27)

    seen = found.judgement.better.exclusions
    assert found.standing is Standing.BETTER
    assert (seen.candidate_only, seen.candidate_breaks) == (9, 3)
    assert seen.p_value == pytest.approx(0.125)


def test_runs_lost_by_both_sides_alike_stop_nothing_until_they_are_too_many() -> None:
    few = judged(["www"] * 24 + ["wwc", "wwB"] * 6)
    many = judged(["wwc", "wwB"] * 18)

    assert few.standing is Standing.BETTER
    assert many.standing is Standing.INCONCLUSIVE
    assert many.judgement.better.exclusions.share == pytest.approx(1 / 3)
    assert many.judgement.worse.exclusions.share == pytest.approx(1 / 3)


def test_the_filter_by_arm_knows_no_lost_pair_with_repeats_either() -> None:
    gate = NoRegressionGate(strategy=None, infrastructure_filter=InfrastructureFilter.PER_ARM)

    found = judged(["wwc"] * 30, gate=gate).judgement.better

    assert Ground.DIFFERENTIAL_EXCLUSION not in {each.ground for each in found.reasons}


def test_what_broken_runs_cost_and_hit_counts_though_the_scenario_does_not() -> None:
    comparison = runs(["wCC"])
    first, second, third = comparison.observations
    hit = paired_arms.with_candidate(third, safety_violations=2)

    (merged,) = by_scenario(
        comparison.model_copy(update={"observations": (first, second, hit)}), repeats=3
    ).observations

    assert not merged.valid
    assert merged.candidate.safety_violations == 2
    assert merged.candidate.cost.tokens == 3 * first.candidate.cost.tokens
    assert (merged.candidate.broken_attempts, merged.baseline.broken_attempts) == (2, 0)


def never(_: EpisodeSpec) -> bool:
    return False


def always_but_one(spec: EpisodeSpec) -> bool | None:
    return None if (x_of(spec), spec.repeat) == (7, 0) else True


@pytest.mark.parametrize("repeats", [1, 3])
async def test_nothing_better_is_claimed_while_more_is_missing_than_is_let_pass(
    repeats: int,
) -> None:
    broken = {"is": True}

    def mended(spec: EpisodeSpec) -> bool | None:
        return always_but_one(spec) if broken["is"] else True

    of = plan({"first": never, "good": mended}, repeats=repeats)

    partial, journal = await compared(of)
    tolerated, _ = await compared(replace(of, max_missing_share=0.1), journal)
    broken["is"] = False
    whole, _ = await compared(of, journal)

    judged = partial["good"].judged
    assert partial["good"].missing == tolerated["good"].missing == 1
    assert judged.standing is Standing.INCONCLUSIVE
    assert judged.judgement.better.codes == ("too_few_pairs:missing",)
    assert judged.reasons[0].startswith(f"1 of {counted(40 * repeats, 'pair')} without a verdict")
    assert {each.standing for each in judged.by_task.values()} == {Standing.INCONCLUSIVE}
    assert tolerated["good"].judged.standing is Standing.BETTER
    assert whole["good"].judged.standing is Standing.BETTER
    assert _decisions(journal) == [Decision.INCONCLUSIVE, Decision.PROMOTE, Decision.PROMOTE]


async def test_that_a_policy_got_worse_stands_though_runs_are_missing() -> None:
    found, journal = await compared(
        plan({"first": lambda _: True, "bad": lambda spec: x_of(spec) == 7 and None})
    )

    assert found["bad"].missing == 1
    assert found["bad"].judged.standing is Standing.REGRESSED
    assert _decisions(journal) == [Decision.REJECT]


def _decisions(journal: MemoryJournal) -> list[Decision]:
    ended = [event for _, event in journal.events() if isinstance(event, ComparisonEnded)]
    return [event.verdict.decision for event in ended if event.verdict is not None]
