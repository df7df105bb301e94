from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.statistics.e_values import (
    LARGEST,
    discordant_e_value,
    fixed_bet_e_value,
    gain_e_value,
    mean_gain_e_value,
    shortfall_e_value,
)

SMALL = st.integers(0, 40)
few = settings(max_examples=50, deadline=None)


@pytest.mark.parametrize("flips", range(1, 11))
def test_the_expectation_under_a_fair_coin_is_one(flips: int) -> None:
    expected = (
        sum(
            math.comb(flips, wins) * discordant_e_value(wins, flips - wins, one_sided=False)
            for wins in range(flips + 1)
        )
        / 2**flips
    )

    assert expected == pytest.approx(1.0)


@pytest.mark.parametrize(("gain", "pairs"), [(0.0, 7), (0.1, 6), (-0.2, 6)])
def test_the_expectation_at_the_boundary_of_a_null_is_one(gain: float, pairs: int) -> None:
    win, lose, tie = 0.25 + gain / 2, 0.25 - gain / 2, 0.5

    total = 0.0
    for path in itertools.product((1, -1, 0), repeat=pairs):
        wins, losses = path.count(1), path.count(-1)
        chance = win**wins * lose**losses * tie ** (pairs - wins - losses)
        total += chance * gain_e_value(wins, losses, pairs=pairs, at_most=gain)

    assert total == pytest.approx(1.0, abs=1e-9)


def test_the_chance_of_ever_reaching_twenty_is_at_most_one_in_twenty() -> None:
    alive = {(0, 0): 1.0}
    crossed = 0.0
    for _ in range(250):
        moved: dict[tuple[int, int], float] = {}
        for (wins, losses), mass in alive.items():
            for at in ((wins + 1, losses), (wins, losses + 1)):
                if discordant_e_value(*at) >= 20:
                    crossed += mass / 2
                else:
                    moved[at] = moved.get(at, 0.0) + mass / 2
        alive = {at: mass for at, mass in moved.items() if mass > 1e-12}

    assert 0.02 < crossed <= 0.05


@few
@given(SMALL, SMALL)
def test_on_discordant_pairs_alone_both_mixtures_agree(wins: int, losses: int) -> None:
    assert gain_e_value(wins, losses, pairs=wins + losses) == pytest.approx(
        discordant_e_value(wins, losses), rel=1e-6
    )


@few
@given(SMALL, SMALL, st.integers(0, 40), st.floats(-0.9, 0.9))
def test_evidence_rises_with_wins_and_falls_with_the_null(
    wins: int, losses: int, ties: int, at_most: float
) -> None:
    pairs = wins + losses + ties
    here = gain_e_value(wins, losses, pairs=pairs, at_most=at_most)

    assert gain_e_value(wins + 1, losses, pairs=pairs + 1, at_most=at_most) >= here
    assert gain_e_value(wins, losses, pairs=pairs, at_most=min(at_most + 0.05, 0.95)) <= here * (
        1 + 1e-9
    )


@few
@given(SMALL, SMALL)
def test_a_shortfall_is_a_gain_of_the_other_arm(wins: int, losses: int) -> None:
    pairs = wins + losses + 3

    assert shortfall_e_value(wins, losses, pairs=pairs, at_least=0.15) == gain_e_value(
        losses, wins, pairs=pairs, at_most=-0.15
    )


@few
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), max_size=30))
def test_the_order_of_pairs_does_not_change_the_evidence(differences: list[float]) -> None:
    wins, losses = differences.count(1.0), differences.count(-1.0)

    by_counts = gain_e_value(wins, losses, pairs=len(differences))

    assert mean_gain_e_value(differences) == pytest.approx(by_counts, rel=1e-9)
    assert mean_gain_e_value(differences[::-1]) == pytest.approx(by_counts, rel=1e-9)


def test_means_over_repeats_count_as_one_observation() -> None:
    assert mean_gain_e_value([0.5] * 10) < mean_gain_e_value([0.5] * 20)
    assert mean_gain_e_value([1.0] * 10) > mean_gain_e_value([0.5] * 10)
    with pytest.raises(ValueError, match="lie in"):
        mean_gain_e_value([1.5])


def test_no_pairs_are_no_evidence() -> None:
    assert discordant_e_value(0, 0) == 1.0
    assert gain_e_value(0, 0, pairs=0) == pytest.approx(1.0)
    assert mean_gain_e_value([]) == pytest.approx(1.0)


def test_overwhelming_evidence_stays_a_finite_number() -> None:
    assert discordant_e_value(5000, 0) == LARGEST
    assert discordant_e_value(0, 5000) == pytest.approx(0.0)


def test_seven_wins_without_a_loss_are_the_shortest_way_to_twenty() -> None:
    assert discordant_e_value(6, 0) == pytest.approx(18.14, abs=0.01)
    assert discordant_e_value(7, 0) == pytest.approx(31.88, abs=0.01)


def test_a_bet_that_can_go_bankrupt_is_refused() -> None:
    with pytest.raises(ValueError, match="more than everything"):
        fixed_bet_e_value([1.0], bet=1.2)
    with pytest.raises(ValueError, match="inside"):
        gain_e_value(1, 0, pairs=1, at_most=1.0)
