from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from openeta_exp.statistics.e_values import anytime_interval
from openeta_exp.statistics.intervals import (
    clopper_pearson,
    liddell,
    newcombe,
    tango,
    wald,
    wilson,
)

# Timings are no property of an interval, and continuous integration shares its cores.
few = settings(max_examples=50, deadline=None)


@st.composite
def counts(draw: st.DrawFn, *, largest: int = 60) -> tuple[int, int, int]:
    """(wins, losses, pairs) of one comparison with at least one pair."""
    pairs = draw(st.integers(1, largest))
    wins = draw(st.integers(0, pairs))
    return wins, draw(st.integers(0, pairs - wins)), pairs


@few
@given(counts(largest=400), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_intervals_of_a_rate_agree_with_statsmodels(
    some: tuple[int, int, int], level: float
) -> None:
    successes, _, attempts = some

    for ours, method in (
        (wilson(successes, attempts, level=level), "wilson"),
        (clopper_pearson(successes, attempts, level=level), "beta"),
    ):
        low, high = proportion_confint(successes, attempts, alpha=1 - level, method=method)
        assert ours.low == pytest.approx(low, abs=1e-9)
        assert ours.high == pytest.approx(high, abs=1e-9)


@few
@given(counts(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_intervals_contain_the_estimate_and_stay_in_range(
    some: tuple[int, int, int], level: float
) -> None:
    wins, losses, pairs = some
    effect = (wins - losses) / pairs

    for interval in (
        tango(wins, losses, pairs=pairs, level=level),
        anytime_interval(wins, losses, pairs=pairs, level=level),
    ):
        assert -1 <= interval.low <= effect + 1e-9
        assert effect - 1e-9 <= interval.high <= 1


@few
@given(counts())
def test_swapping_the_arms_mirrors_every_interval(some: tuple[int, int, int]) -> None:
    wins, losses, pairs = some

    for build in (tango, anytime_interval, wald):
        ours = build(wins, losses, pairs=pairs)
        theirs = build(losses, wins, pairs=pairs)
        assert (ours.low, ours.high) == pytest.approx((-theirs.high, -theirs.low), abs=1e-12)


@few
@given(counts(), st.sampled_from([0.8, 0.9, 0.95]))
def test_more_confidence_is_a_wider_interval(some: tuple[int, int, int], level: float) -> None:
    wins, losses, pairs = some

    for build in (tango, anytime_interval):
        narrow = build(wins, losses, pairs=pairs, level=level)
        wide = build(wins, losses, pairs=pairs, level=0.99)
        assert wide.low <= narrow.low + 1e-12
        assert narrow.high <= wide.high + 1e-12


@few
@given(counts())
def test_one_more_win_instead_of_a_tie_moves_both_ends_up(some: tuple[int, int, int]) -> None:
    wins, losses, pairs = some
    if wins + losses == pairs:
        pairs += 1

    before = tango(wins, losses, pairs=pairs)
    after = tango(wins + 1, losses, pairs=pairs)

    assert after.low >= before.low - 1e-9
    assert after.high >= before.high - 1e-9


@few
@given(counts())
def test_what_is_valid_at_any_stop_is_wider_than_what_is_not(some: tuple[int, int, int]) -> None:
    wins, losses, pairs = some
    fixed, anytime = tango(wins, losses, pairs=pairs), anytime_interval(wins, losses, pairs=pairs)

    assert anytime.high - anytime.low >= fixed.high - fixed.low - 0.05


def test_without_discordance_the_score_interval_keeps_its_width() -> None:
    interval = tango(0, 0, pairs=20)

    assert interval.low == pytest.approx(-interval.high)
    assert interval.high == pytest.approx(1.959964**2 / (20 + 1.959964**2), abs=1e-6)


def test_without_pairs_anything_is_possible() -> None:
    for interval in (tango(0, 0, pairs=0), anytime_interval(0, 0, pairs=0)):
        assert (interval.low, interval.high) == (-1.0, 1.0)
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)
    assert (clopper_pearson(0, 0).low, clopper_pearson(0, 0).high) == (0.0, 1.0)


def test_one_pair_is_almost_no_evidence() -> None:
    interval = tango(1, 0, pairs=1)

    assert interval.high == 1.0
    assert interval.low < -0.5


def test_a_ratio_without_losses_has_no_upper_end() -> None:
    assert liddell(5, 0).high == math.inf
    assert liddell(0, 5).low == 0.0
    assert (liddell(0, 0).low, liddell(0, 0).high) == (0.0, math.inf)


def test_the_hybrid_interval_survives_empty_margins() -> None:
    interval = newcombe(0, 0, both=12, neither=0)

    assert interval.low == pytest.approx(-interval.high)
    assert 0 in interval


@pytest.mark.parametrize(("wins", "losses", "pairs"), [(3, 3, 5), (-1, 0, 5), (0, 6, 5)])
def test_counts_that_do_not_fit_are_refused(wins: int, losses: int, pairs: int) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        tango(wins, losses, pairs=pairs)
