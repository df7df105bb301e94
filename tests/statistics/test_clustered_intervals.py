"""Intervals over scenarios that were run more than once."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.statistics.clustered_intervals import (
    clustered_newcombe,
    clustered_wilson,
    effective_size,
)
from openeta_exp.statistics.intervals import newcombe, wilson

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
