from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from openeta_exp.statistics.paired import (
    Alternative,
    equivalent,
    mcnemar_exact,
    mcnemar_midp,
    mcnemar_z_squared,
    sign_flip,
    sign_tail,
)
from openeta_exp.statistics.posterior import posterior, superior_probability

SMALL = st.integers(0, 40)
few = settings(max_examples=40, deadline=None)


@few
@given(SMALL, SMALL)
def test_the_exact_test_agrees_with_statsmodels(wins: int, losses: int) -> None:
    table = [[7, losses], [wins, 11]]

    ours = mcnemar_exact(wins, losses, alternative=Alternative.TWO_SIDED)

    assert ours == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-9)
    if wins + losses:
        theirs = mcnemar(table, exact=False, correction=False).statistic
        assert mcnemar_z_squared(wins, losses) == pytest.approx(theirs)


@pytest.mark.parametrize("flips", range(11))
def test_the_tail_is_what_counting_all_sign_patterns_gives(flips: int) -> None:
    sums = [sum(pattern) for pattern in itertools.product((0, 1), repeat=flips)]

    for wins in range(flips + 2):
        assert sign_tail(wins, flips) == sum(total >= wins for total in sums) / 2**flips


@few
@given(SMALL, SMALL)
def test_swapping_the_arms_swaps_the_alternatives(wins: int, losses: int) -> None:
    for test in (mcnemar_exact, mcnemar_midp):
        assert test(wins, losses, alternative=Alternative.GREATER) == test(
            losses, wins, alternative=Alternative.LESS
        )
        assert test(wins, losses, alternative=Alternative.TWO_SIDED) == test(
            losses, wins, alternative=Alternative.TWO_SIDED
        )


@few
@given(SMALL, SMALL)
def test_one_more_win_is_more_evidence(wins: int, losses: int) -> None:
    assert mcnemar_exact(wins + 1, losses) < mcnemar_exact(wins, losses)
    assert mcnemar_midp(wins + 1, losses) < mcnemar_midp(wins, losses)
    assert superior_probability(wins + 1, losses) > superior_probability(wins, losses)


@few
@given(SMALL, SMALL)
def test_the_midp_value_never_exceeds_the_exact_one(wins: int, losses: int) -> None:
    for alternative in Alternative:
        midp = mcnemar_midp(wins, losses, alternative=alternative)
        assert 0 < midp <= mcnemar_exact(wins, losses, alternative=alternative)


def test_without_discordance_there_is_no_evidence() -> None:
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_midp(0, 0) == 0.5
    assert mcnemar_z_squared(0, 0) == 0.0
    assert superior_probability(0, 0) == pytest.approx(0.5)


def test_a_p_value_stays_exact_where_floats_would_not() -> None:
    assert mcnemar_exact(5, 0) == 0.03125
    assert mcnemar_exact(3000, 3000) == pytest.approx(0.5051, abs=1e-3)


def test_the_smallest_records_without_a_loss_that_pass_are_known() -> None:
    passing = [wins for wins in range(10) if mcnemar_exact(wins, 0) <= 0.05]

    assert passing[0] == 5


@few
@given(SMALL, SMALL, st.integers(0, 60))
def test_the_posterior_is_a_probability_and_falls_with_the_gain_asked_for(
    wins: int, losses: int, ties: int
) -> None:
    pairs = wins + losses + ties

    little = posterior(wins, losses, pairs=pairs, delta_min=0.01)
    much = posterior(wins, losses, pairs=pairs, delta_min=0.2)

    assert 0 <= much.worthwhile <= little.worthwhile <= little.superior + 1e-6 <= 1 + 1e-6
    assert (little.mean > 0) == (wins > losses)


def test_the_posterior_mean_gain_matches_simulated_dirichlet_draws() -> None:
    draws = np.random.default_rng(3).dirichlet([8.5, 1.5, 22.0], size=400_000)
    gains = draws[:, 0] - draws[:, 1]

    seen = posterior(8, 1, pairs=30, delta_min=0.15)

    assert seen.worthwhile == pytest.approx(float(np.mean(gains > 0.15)), abs=0.004)
    assert seen.mean == pytest.approx(float(gains.mean()), abs=0.001)
    assert seen.superior == pytest.approx(float(np.mean(gains > 0)), abs=0.001)


def test_sign_flips_of_one_mean_cannot_reject() -> None:
    assert sign_flip([0.4]) == 0.5
    assert sign_flip([0.0, 0.0]) == 1.0
    assert sign_flip([0.1] * 4) == 1 / 16
    with pytest.raises(ValueError, match="1 to 20"):
        sign_flip([])


def test_equivalence_needs_data_and_a_margin() -> None:
    assert not equivalent(0, 0, pairs=5, margin=0.10)
    assert equivalent(0, 0, pairs=60, margin=0.10)
    assert not equivalent(10, 0, pairs=60, margin=0.10)
