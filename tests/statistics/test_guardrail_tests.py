from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.gate import FloorRule, Tier
from openeta_exp.domain.verdict import Ledger
from openeta_exp.statistics.agent_model import AgentModel
from openeta_exp.statistics.clusters import clustered_standard_error, task_mean_test
from openeta_exp.statistics.flakiness import flakiness, measure_flakiness
from openeta_exp.statistics.floors import certified_rate, successes_needed
from openeta_exp.statistics.guardrails import (
    cost_ratio,
    credible_harm,
    differential_exclusion,
    non_inferiority,
    task_harm_p_values,
)
from openeta_exp.statistics.multiplicity import LondRule, alpha_cap, holm, next_level
from openeta_exp.statistics.paired import mcnemar_midp
from tests.statistics.paired_arms import story


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.999))
def test_holm_rejects_what_stepping_down_rejects(p_values: list[float], alpha: float) -> None:
    ranked = sorted(p_values)
    steps = [p * (len(ranked) - rank) for rank, p in enumerate(ranked)]
    failed = next((rank for rank, step in enumerate(steps) if step > alpha), len(steps))

    adjusted = holm(p_values)

    assert sum(p <= alpha for p in adjusted) == failed
    assert all(ours >= raw for ours, raw in zip(adjusted, p_values, strict=True))


def test_credible_harm_leaves_unchanged_candidates_alone() -> None:
    """A rate of 10 % and an ICC of one half over 60 pairs: about 3 % are blocked by chance."""
    rates = AgentModel(success_rate=0.10, icc=0.5).against(0.0)
    generator = np.random.default_rng(4)
    cells = [rates.wins, rates.losses, 1 - rates.discordance]
    draws = generator.multinomial(60, cells, size=4000)

    by_p_value = np.mean([mcnemar_midp(int(w), int(b)) <= 0.05 for w, b, _ in draws])
    by_counting = np.mean(draws[:, 0] > draws[:, 1])

    assert by_p_value == pytest.approx(0.03, abs=0.012)
    assert by_counting == pytest.approx(0.42, abs=0.03)


def test_harm_blocks_when_it_is_significant_or_large() -> None:
    assert credible_harm(5, 0, pairs=60).blocks
    assert not credible_harm(2, 0, pairs=60).blocks
    assert not credible_harm(9, 3, pairs=60, alpha=0.001).blocks
    assert credible_harm(10, 3, pairs=60, alpha=0.001).blocks
    assert not credible_harm(3, 0, pairs=10, alpha=0.001).blocks
    assert not credible_harm(0, 0, pairs=0).blocks
    assert not credible_harm(0, 9, pairs=60).blocks


def test_exactly_the_largest_increase_does_not_block() -> None:
    assert not credible_harm(12, 6, pairs=60, alpha=0.001).blocks
    assert credible_harm(13, 6, pairs=60, alpha=0.001).blocks


def test_non_inferiority_asks_for_proof() -> None:
    assert non_inferiority(0, 0, pairs=10, margin=0.10).blocks
    assert not non_inferiority(0, 0, pairs=60, margin=0.10).blocks
    assert non_inferiority(5, 0, pairs=60, margin=0.10).blocks


def test_a_cost_ratio_is_repeatable_by_its_seed_and_contains_the_estimate() -> None:
    generator = np.random.default_rng(1)
    base, cand = generator.gamma(2, 100, 60).tolist(), generator.gamma(2, 120, 60).tolist()
    tasks = [index % 5 for index in range(60)]

    one = cost_ratio(base, cand, tasks=tasks, seed=9)

    assert one is not None
    assert one == cost_ratio(base, cand, tasks=tasks, seed=9)
    assert one != cost_ratio(base, cand, tasks=tasks, seed=10)
    assert one.interval.low < one.ratio < one.interval.high
    assert one.ratio == pytest.approx(sum(cand) / sum(base))


def test_a_cost_ratio_covers_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(8)
    tasks = [index % 4 for index in range(48)]
    covered = 0
    for trial in range(200):
        difficulty = generator.gamma(3, 10, 48)
        base = difficulty * generator.uniform(0.5, 1.5, 48)
        cand = 1.1 * difficulty * generator.uniform(0.5, 1.5, 48)
        seen = cost_ratio(base.tolist(), cand.tolist(), tasks=tasks, seed=trial, replicates=500)
        assert seen is not None
        covered += 1.1 in seen.interval

    assert 0.80 <= covered / 200 <= 0.97


def test_equal_costs_have_a_ratio_of_one_without_spread() -> None:
    seen = cost_ratio([3.0, 5.0], [3.0, 5.0], tasks=["a", "b"], seed=0)

    assert seen is not None
    assert (seen.ratio, seen.interval.low, seen.interval.high) == (1.0, 1.0, 1.0)


def test_without_a_baseline_cost_there_is_no_ratio() -> None:
    assert cost_ratio([], [], tasks=[], seed=0) is None
    assert cost_ratio([0.0, 0.0], [1.0, 1.0], tasks=["a", "a"], seed=0) is None
    with pytest.raises(ValueError, match="per pair"):
        cost_ratio([1.0], [1.0, 2.0], tasks=["a"], seed=0)
    with pytest.raises(ValueError, match="not negative"):
        cost_ratio([-1.0], [1.0], tasks=["a"], seed=0)


def test_ten_thousand_pairs_of_one_task_are_resampled_in_slices() -> None:
    ones = [1.0] * 10_000

    seen = cost_ratio(ones, ones, tasks=["a"] * 10_000, seed=0, replicates=400)

    assert seen is not None
    assert seen.ratio == 1.0


def test_a_candidate_that_loses_more_pairs_is_noticed_one_that_loses_fewer_is_not() -> None:
    assert differential_exclusion(5, 0, excluded=5, pairs=60).differential
    assert differential_exclusion(5, 0, excluded=0, pairs=60).differential
    assert not differential_exclusion(0, 5, excluded=5, pairs=60).differential
    assert not differential_exclusion(4, 2, excluded=6, pairs=60).differential
    assert differential_exclusion(0, 0, excluded=16, pairs=60).differential
    assert not differential_exclusion(0, 0, excluded=0, pairs=0).differential
    assert differential_exclusion(3, 3, excluded=8, pairs=0).differential


def test_a_single_task_is_blamed_only_beyond_what_many_tasks_make_likely() -> None:
    adjusted = task_harm_p_values([(0, 6), (0, 0), (3, 0), (1, 1)])

    assert adjusted[0] == pytest.approx(4 / 64)
    assert adjusted[1:] == (1.0, 1.0, 1.0)
    assert task_harm_p_values([]) == ()


def test_the_point_floor_certifies_less_than_it_seems() -> None:
    assert certified_rate(19, 20, rule=FloorRule.POINT) == 0.95
    assert certified_rate(19, 20, rule=FloorRule.LOWER_BOUND) == pytest.approx(0.784, abs=5e-4)
    assert certified_rate(20, 20, rule=FloorRule.LOWER_BOUND) == pytest.approx(0.861, abs=5e-4)
    assert certified_rate(0, 0, rule=FloorRule.LOWER_BOUND) == 0.0


@pytest.mark.parametrize(("attempts", "needed"), [(59, 59), (93, 92), (124, 122), (153, 150)])
def test_a_certified_rate_of_95_needs_so_many_successes(attempts: int, needed: int) -> None:
    assert successes_needed(attempts, rate=0.95, rule=FloorRule.LOWER_BOUND) == needed
    fewer = successes_needed(attempts - 1, rate=0.95, rule=FloorRule.LOWER_BOUND)
    assert fewer is None or fewer == needed


def test_a_certified_rate_of_80_allows_six_failures_in_sixty() -> None:
    assert successes_needed(60, rate=0.80, rule=FloorRule.LOWER_BOUND) == 54


def test_a_ledger_pays_out_more_after_every_promotion_and_nothing_beyond_its_horizon() -> None:
    rule = LondRule(horizon=10)

    assert rule.level([]) == pytest.approx(0.02)
    assert rule.level([True, False]) == pytest.approx(0.04)
    assert rule.level([True] * 9) == 0.05
    assert rule.level([False] * 10) == 0.0
    assert LondRule(horizon=4).level([]) == 0.05
    assert next_level(Ledger(horizon=10)) == pytest.approx(0.02)


def test_only_what_may_be_published_is_on_the_ledger() -> None:
    assert alpha_cap(Tier.PUBLISH, horizon=6, fdr=0.2) == pytest.approx(0.2 / 6)
    assert alpha_cap(Tier.PUBLISH, horizon=6, fdr=0.2, history=[True]) == 0.05
    assert alpha_cap(Tier.LOCAL, horizon=6, fdr=0.2, history=[False] * 9) is None


def test_the_levels_of_a_ledger_without_promotions_add_up_to_the_wanted_rate() -> None:
    rule = LondRule(horizon=8, fdr=0.2)

    assert math.fsum(rule.level([False] * tests) for tests in range(9)) == pytest.approx(0.2)


def test_flakiness_reads_the_icc_off_an_a_a_comparison() -> None:
    seen = flakiness(4, 4, both=24, neither=8)

    assert seen.discordance == 0.2
    assert seen.icc == pytest.approx(1 - 0.2 / 0.42)
    assert not seen.alarm
    assert seen.discordance_low < 0.2 < seen.discordance_high


def test_flakiness_that_favours_one_arm_raises_the_alarm() -> None:
    assert flakiness(0, 6, both=20, neither=14).alarm


def test_an_agent_that_always_ends_alike_has_no_icc() -> None:
    seen = flakiness(0, 0, both=40, neither=0)

    assert seen.icc is None
    assert seen.discordance == 0.0
    with pytest.raises(ValueError, match="at least one pair"):
        flakiness(0, 0, both=0, neither=0)


def test_flaky_episodes_are_named() -> None:
    seen = measure_flakiness(story("bbwnlb"))

    assert [key.seed for key in seen.flaky_keys] == [2, 4]
    assert seen.success_rate == pytest.approx((2 * 3 + 2) / 12)


def test_a_gain_on_one_task_out_of_five_does_not_carry_over() -> None:
    differences, tasks = [1.0] * 6 + [0.0] * 24, [index // 6 for index in range(30)]

    seen = task_mean_test(differences, tasks)

    assert seen.p_value > 0.15
    assert clustered_standard_error(differences, tasks) == pytest.approx(0.2)


def test_tasks_without_spread_decide_by_their_mean() -> None:
    assert task_mean_test([1.0, 1.0], ["a", "b"]).p_value == 0.0
    assert task_mean_test([0.0, 0.0], ["a", "b"]).p_value == 1.0
    with pytest.raises(ValueError, match="one task"):
        task_mean_test([1.0], ["a"])
    with pytest.raises(ValueError, match="one cluster"):
        clustered_standard_error([1.0], ["a"])
