"""Intervals over scenarios that were run more than once."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.statistics.clustered_intervals import (
    clustered_difference,
    clustered_newcombe,
    clustered_wilson,
    effective_size,
)
from openeta_exp.statistics.clusters import task_mean_test
from openeta_exp.statistics.intervals import newcombe, tango, wilson

few = settings(max_examples=50, deadline=None)

TABLES = st.tuples(*[st.integers(0, 4_000)] * 4).filter(any)
"""Pairs that the candidate alone, the baseline alone, both and neither solved."""
REPEATS = st.integers(1, 9)


def repeated(scenarios: int, repeats: int) -> list[int]:
    return [scenario for scenario in range(scenarios) for _ in range(repeats)]


@few
@given(st.integers(0, 5_000), st.integers(0, 5_000))
def test_one_run_a_scenario_gives_wilsons_interval_exactly(successes: int, failures: int) -> None:
    runs = successes + failures

    assert clustered_wilson(successes, range(runs)) == wilson(successes, runs)


@few
@given(TABLES)
def test_one_pair_a_scenario_gives_newcombes_interval_exactly(
    table: tuple[int, int, int, int],
) -> None:
    wins, losses, both, neither = table
    size = effective_size(range(sum(table)))

    found = clustered_newcombe(wins, losses, both=both, neither=neither, size=size)

    assert found == newcombe(wins, losses, both=both, neither=neither)


@few
@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), REPEATS)
def test_a_policy_that_always_does_the_same_is_known_no_better_after_repeats(
    some: tuple[int, int], repeats: int
) -> None:
    successes, scenarios = some

    found = clustered_wilson(successes * repeats, repeated(scenarios, repeats))

    assert found == wilson(successes, scenarios)


@few
@given(TABLES, REPEATS)
def test_a_difference_that_is_always_the_same_is_known_no_better_after_repeats(
    table: tuple[int, int, int, int], repeats: int
) -> None:
    wins, losses, both, neither = (repeats * each for each in table)
    size = effective_size(repeated(sum(table), repeats))

    found = clustered_newcombe(wins, losses, both=both, neither=neither, size=size)

    assert size == sum(table)
    once = newcombe(table[0], table[1], both=table[2], neither=table[3])
    assert (found.low, found.high) == pytest.approx((once.low, once.high), abs=1e-12)


@few
@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.data())
def test_scenarios_with_unequally_many_verdicts_are_worth_at_most_their_number(
    sizes: list[int], data: st.DataObject
) -> None:
    clusters = [place for place, size in enumerate(sizes) for _ in range(size)]
    successes = data.draw(st.integers(0, len(clusters)))

    size = effective_size(clusters)
    found = clustered_wilson(successes, clusters)

    assert 1 <= size <= len(sizes) + 1e-9
    assert successes / len(clusters) in found
    assert 0 <= found.low < found.high <= 1


def test_a_scenario_that_was_run_nine_times_beside_one_hardly_counts_for_two() -> None:
    assert effective_size([0] * 9 + [1]) == pytest.approx(100 / 82)


def test_the_interval_covers_the_rate_of_new_scenarios_where_runs_taken_singly_do_not() -> None:
    scenarios, repeats, rate = 20, 5, 0.7
    covered = {"scenarios": 0.0, "runs": 0.0}
    for solved in range(scenarios + 1):
        chance = math.comb(scenarios, solved) * rate**solved * (1 - rate) ** (scenarios - solved)
        clustered = clustered_wilson(solved * repeats, repeated(scenarios, repeats))
        covered["scenarios"] += chance * (rate in clustered)
        covered["runs"] += chance * (rate in wilson(solved * repeats, scenarios * repeats))

    assert covered["scenarios"] > 0.94
    assert covered["runs"] < 0.7


def test_without_a_run_nothing_is_known_and_without_a_pair_nothing_is_said() -> None:
    nothing = clustered_wilson(0, [])

    assert (nothing.low, nothing.high) == (0.0, 1.0)
    with pytest.raises(ValueError, match="0 pairs"):
        clustered_newcombe(0, 0, both=0, neither=0, size=0)
    with pytest.raises(ValueError, match="3 successes do not fit in 2 runs"):
        clustered_wilson(3, [1, 2])


def test_one_win_among_ties_hardly_narrows_the_interval_of_the_difference() -> None:
    scenarios = repeated(20, 5)
    ties = [0] * 100
    one_win = [*ties[:17], 1, *ties[18:]]

    before = clustered_difference(ties, scenarios)
    after = clustered_difference(one_win, scenarios)

    assert (before.low, before.high) == pytest.approx((-0.1611, 0.1611), abs=1e-4)
    assert (after.low, after.high) == pytest.approx((-0.1513, 0.1714), abs=1e-4)


DIFFERENCES = st.lists(
    st.tuples(st.integers(0, 11), st.sampled_from([1, 0, 0, -1])), min_size=1, max_size=60
)


@few
@given(DIFFERENCES)
def test_the_interval_spans_that_of_scenario_means_and_what_a_kind_not_seen_could_change(
    runs: list[tuple[int, int]],
) -> None:
    scenarios, differences = [each for each, _ in runs], [each for _, each in runs]

    found = clustered_difference(differences, scenarios)
    turned = clustered_difference([-each for each in differences], scenarios)

    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low), abs=1e-12)
    assert -1 <= found.low <= math.fsum(differences) / len(differences) <= found.high <= 1
    if len(set(scenarios)) > 1:
        kind_unseen = 3.8415 / (effective_size(scenarios) + 3.8415)
        middle = math.fsum(differences) / len(differences)
        assert middle - found.low >= kind_unseen * (1 - differences.count(-1) / len(runs)) - 1e-4
    sizes = {scenarios.count(each) for each in scenarios}
    if len(sizes) == 1 and len(set(scenarios)) > 1:
        means = task_mean_test(differences, scenarios).interval
        assert found.low <= max(means.low, -1) + 1e-12
        assert found.high >= min(means.high, 1) - 1e-12


def _covered(scenarios: int, repeats: int, rate: float, *, level: float = 0.95) -> float:
    """How probably the interval covers a loss of `rate`, exactly, if so many new scenarios are
    always lost and all others always tied."""
    total = 0.0
    for lost in range(scenarios + 1):
        chance = math.comb(scenarios, lost) * rate**lost * (1 - rate) ** (scenarios - lost)
        differences = [-int(each < lost) for each in repeated(scenarios, repeats)]
        found = clustered_difference(differences, repeated(scenarios, repeats), level=level)
        total += chance * (-rate in found)
    return total


@pytest.mark.parametrize(("scenarios", "repeats"), list(product((10, 20, 40), (2, 3, 5))))
def test_scenarios_that_are_always_lost_are_covered_though_none_or_few_turned_up(
    scenarios: int, repeats: int
) -> None:
    covered = {
        rate: _covered(scenarios, repeats, rate) for rate in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.9)
    }

    assert min(covered.values()) > 0.945, covered


def test_a_true_loss_as_large_as_the_margin_is_covered_whatever_the_noise() -> None:
    """A tenth of scenarios is always lost; elsewhere one policy wins now and then."""
    draws, misses = 400, 0
    random = np.random.default_rng(7)
    for _ in range(draws):
        noise = random.choice([-1, 0, 1], p=[0.02, 0.96, 0.02], size=(20, 5))
        noise[random.random(20) < 0.1] = -1
        found = clustered_difference(noise.ravel().tolist(), repeated(20, 5))
        misses += -0.1 not in found

    assert misses / draws <= 0.05


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_repeats_are_worth_their_cost_where_policies_are_fickle(repeats: int) -> None:
    """Every run a coin toss under both policies: scenarios differ by chance alone."""
    draws, misses, width = 200, 0, 0.0
    random = np.random.default_rng(repeats)
    for _ in range(draws):
        solved = random.random((2, 40, repeats)) < 0.5
        differences = (solved[0].astype(int) - solved[1]).ravel().tolist()
        found = clustered_difference(differences, repeated(40, repeats))
        misses += 0 not in found
        width += (found.high - found.low) / draws

    once = tango(10, 10, pairs=40)
    assert misses / draws <= 0.05
    assert width < {2: 0.9, 3: 0.8, 5: 0.65}[repeats] * (once.high - once.low)


def test_one_scenario_says_nothing_of_the_others() -> None:
    found = clustered_difference([1, 1, 0], ["a"] * 3)

    assert (found.low, found.high) == (-1.0, 1.0)
    with pytest.raises(ValueError, match="without a pair"):
        clustered_difference([], [])
