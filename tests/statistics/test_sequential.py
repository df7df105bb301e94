"""The default gate's test, against enumeration of everything that could have happened."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openeta_exp.statistics.agent_model import PairRates
from openeta_exp.statistics.operating import sequential_operating_point
from openeta_exp.statistics.sequential import Call, SequentialState, look, run
from openeta_exp.statistics.sequential_design import (
    Reestimation,
    SequentialDesign,
    conditional_power,
    futility_lead,
    reestimated,
)
from openeta_exp.statistics.sequential_streams import simulate

SMALL = SequentialDesign(n_max=10, n_min=4, batch=2, alpha=0.1, gamma=0.0)
few = settings(max_examples=60, deadline=None)
STREAMS = st.lists(st.sampled_from([-1, 0, 1]), max_size=70)


def signed(pattern: tuple[bool, ...], signs: tuple[int, ...]) -> list[int]:
    remaining = iter(signs)
    return [next(remaining) if discordant else 0 for discordant in pattern]


@pytest.mark.parametrize(
    "pattern",
    [
        (True,) * 10,
        (True, False) * 5,
        (False,) * 3 + (True,) * 7,
        (True,) * 6 + (False,) * 4,
        (True, True, False, True, False, False, True, True, False, True),
    ],
)
@pytest.mark.parametrize("rho", [1.0, 2.0])
def test_given_where_pairs_differ_the_error_is_exactly_what_was_spent(
    pattern: tuple[bool, ...], rho: float
) -> None:
    """All sign patterns are equally likely if no arm is better: count the promotions."""
    design = replace(SMALL, rho=rho)
    flips = sum(pattern)

    promotions = sum(
        run(design, signed(pattern, signs)).call is Call.SUPERIOR
        for signs in itertools.product((1, -1), repeat=flips)
    )
    # A path that never rejects goes through every look.
    alternating = tuple((-1) ** index for index in range(1, flips + 1))
    never = run(design, signed(pattern, alternating))

    assert never.call is Call.BUDGET
    assert promotions / 2**flips == pytest.approx(never.state.spent, abs=1e-12)
    assert never.state.spent <= design.alpha


@pytest.mark.parametrize("discordance", [0.1, 0.4, 0.8, 1.0])
@pytest.mark.parametrize(
    "design",
    [
        SequentialDesign(n_max=8, n_min=2, batch=2, alpha=0.1, gamma=0.0),
        SequentialDesign(n_max=8, n_min=3, batch=1, alpha=0.05, gamma=0.2, delta_min=0.3),
        SequentialDesign(n_max=7, n_min=0, batch=3, alpha=0.2, gamma=0.2, rho=1.5),
    ],
)
def test_the_error_over_every_possible_stream_is_at_most_alpha(
    design: SequentialDesign, discordance: float
) -> None:
    """Enumerate all 3**n streams of two equal arms, with and without giving up."""
    win = discordance / 2
    error = early = total = 0.0
    for stream in itertools.product((1, -1, 0), repeat=design.n_max):
        discordant = sum(map(abs, stream))
        chance = win**discordant * (1 - discordance) ** (design.n_max - discordant)
        if chance == 0:
            continue
        played = run(design, stream)
        total += chance
        error += chance * (played.call is Call.SUPERIOR)
        early += chance * any(seen.p_stage <= design.alpha for seen in played.looks[-1:])

    assert total == pytest.approx(1.0)
    assert error <= design.alpha
    assert early <= design.alpha + 1e-12


def test_the_stage_wise_p_value_is_never_anti_conservative() -> None:
    """P(p <= x) <= x over all sign patterns, whatever x."""
    pattern = (True, False, True, True, True, False, True, True, True, True)
    flips = sum(pattern)
    p_values = [
        run(SMALL, signed(pattern, signs)).looks[-1].p_stage
        for signs in itertools.product((1, -1), repeat=flips)
    ]

    for x in sorted(set(p_values)):
        assert sum(p <= x for p in p_values) / len(p_values) <= x + 1e-12


def test_re_estimating_the_size_from_the_number_of_discordant_pairs_keeps_the_error() -> None:
    design = SequentialDesign(n_max=8, n_min=3, batch=3, alpha=0.2, gamma=0.0, delta_min=0.35)
    rule = Reestimation(smallest=4, largest=8)
    sizes, error = set(), 0.0
    for stream in itertools.product((1, -1, 0), repeat=8):
        played = run(design, stream, rule=rule)
        sizes.add(played.design.n_max)
        error += 3.0**-8 * (played.call is Call.SUPERIOR)

    assert len(sizes) > 1
    assert error <= design.alpha


def test_only_the_number_of_discordant_pairs_moves_the_size() -> None:
    design = SequentialDesign(n_max=150)
    rule = Reestimation()

    flaky = reestimated(design, pairs=20, discordant=9, rule=rule)
    steady = reestimated(design, pairs=20, discordant=1, rule=rule)

    assert (steady.n_max, flaky.n_max) == (40, 108)
    wins = run(design, [1] * 9 + [0] * 11 + [0] * 200, rule=rule)
    mixed = run(design, [1, -1] * 4 + [1] + [0] * 11 + [0] * 200, rule=rule)
    assert wins.design.n_max == mixed.design.n_max == flaky.n_max


@few
@given(st.data())
def test_many_streams_at_once_end_exactly_as_one_by_one(data: st.DataObject) -> None:
    design = data.draw(
        st.builds(
            SequentialDesign,
            n_max=st.integers(10, 40),
            n_min=st.integers(0, 10),
            batch=st.integers(1, 60),
            alpha=st.sampled_from([0.02, 0.05, 0.2]),
            gamma=st.sampled_from([0.0, 0.2]),
            rho=st.sampled_from([1.0, 2.0]),
        )
    )
    seed, length = data.draw(st.integers(0, 2**16)), data.draw(st.integers(1, design.n_max))
    rule = data.draw(st.sampled_from([None, Reestimation(smallest=10, largest=design.n_max)]))
    not_before = data.draw(st.sampled_from([0, 13]))
    streams = drifting(seed, shape=(8, length), drift=data.draw(st.sampled_from([0.0, 0.2, 0.5])))

    ends = simulate(design, streams, rule=rule, not_before=not_before)

    for index, stream in enumerate(streams.tolist()):
        played = run(design, stream, rule=rule, exhausted=True, not_before=not_before)
        assert bool(ends.promoted[index]) is (played.call is Call.SUPERIOR)
        assert bool(ends.rejected[index]) is (played.call in (Call.WORSE, Call.FUTILE))
        assert ends.pairs[index] == played.state.pairs


@pytest.mark.parametrize("rho", [1.0, 3.0])
@pytest.mark.parametrize("alpha", [0.05, 0.0005])
def test_long_streams_end_as_one_by_one_too(alpha: float, rho: float) -> None:
    """Where hundreds of pairs differ, simulation leaves out chances that are negligible."""
    design = SequentialDesign(n_max=700, alpha=alpha, rho=rho, gamma=0.0, batch=20)
    streams = drifting(3, shape=(10, 700), drift=0.05)

    ends = simulate(design, streams)

    played = [run(design, stream) for stream in streams.tolist()]
    assert ends.pairs.tolist() == [one.state.pairs for one in played]
    assert ends.promoted.tolist() == [one.call is Call.SUPERIOR for one in played]
    assert max(one.state.wins + one.state.losses for one in played) > 300


def drifting(seed: int, *, shape: tuple[int, int], drift: float) -> NDArray[np.int8]:
    """Streams in which half the pairs differ, and more often for the candidate."""
    return np.random.default_rng(seed).choice(
        np.array([-1, 0, 1], dtype=np.int8),
        p=[0.25 - drift / 4, 0.5 - drift / 4, 0.25 + drift / 2],
        size=shape,
    )


@few
@given(STREAMS)
def test_no_evidence_can_be_gained_by_reading_on(stream: list[int]) -> None:
    """Once stopped, further pairs change nothing: replaying a longer stream stops there too."""
    design = SequentialDesign()

    played = run(design, stream)

    if played.call is not Call.CONTINUE:
        assert run(design, [*stream, 1, 1, 1, -1, -1]) == played


@few
@given(STREAMS)
def test_turning_a_loss_into_a_win_never_takes_a_promotion_away(stream: list[int]) -> None:
    design = SequentialDesign(gamma=0.0)
    better = list(stream)
    if -1 in better:
        better[better.index(-1)] = 1

    before, after = run(design, stream), run(design, better)

    if before.call is Call.SUPERIOR:
        assert after.call is Call.SUPERIOR
        assert after.state.pairs <= before.state.pairs


@few
@given(STREAMS)
def test_spending_and_boundaries_depend_on_discordance_only(stream: list[int]) -> None:
    design = SequentialDesign(gamma=0.0, alpha=0.001)

    ours = run(design, stream)
    theirs = run(design, [-difference for difference in stream])

    shared = min(len(ours.looks), len(theirs.looks))
    assert [seen.critical_wins for seen in ours.looks[:shared]] == [
        seen.critical_wins for seen in theirs.looks[:shared]
    ]


@few
@given(STREAMS)
def test_never_more_than_alpha_is_spent(stream: list[int]) -> None:
    design = SequentialDesign(gamma=0.0)

    played = run(design, stream, exhausted=True)

    spent = [seen.state.spent for seen in played.looks]
    assert spent == sorted(spent)
    assert all(value <= design.alpha + 1e-12 for value in spent)
    assert all(0 < seen.p_stage <= 1 for seen in played.looks)


def test_identical_arms_are_given_up_as_futile_and_never_superior() -> None:
    played = run(SequentialDesign(), [0] * 60)

    assert played.call is Call.FUTILE
    assert played.state.pairs < 60


def test_a_losing_candidate_is_called_worse() -> None:
    played = run(SequentialDesign(), [-1, -1, 0, 0] * 15)

    assert played.call is Call.WORSE
    assert played.state.pairs == 20


def test_nothing_is_decided_before_the_smallest_number_of_pairs() -> None:
    assert run(SequentialDesign(), [1] * 19).looks == ()
    assert run(SequentialDesign(), [1] * 20).call is Call.SUPERIOR
    assert run(SequentialDesign(), []).call is Call.CONTINUE
    assert run(SequentialDesign(), [], exhausted=True).looks == ()


def test_a_stream_that_ends_early_gets_one_last_look() -> None:
    stream = [0] * 17 + [1] * 6

    assert run(SequentialDesign(gamma=0.0), stream).looks[-1].state.pairs == 20
    assert run(SequentialDesign(gamma=0.0), stream, exhausted=True).looks[-1].state.pairs == 23


def test_the_futility_lead_is_where_conditional_power_meets_gamma() -> None:
    design = SequentialDesign()

    lead = futility_lead(design, pairs=32, discordant=11)

    assert lead is not None
    for nudge, gives_up in ((-1e-6, True), (1e-6, False)):
        wins = (11 + lead + nudge) / 2
        power = conditional_power(design, pairs=32, wins=wins, losses=11 - wins)
        assert bool(power < design.gamma) is gives_up
    assert futility_lead(design, pairs=60, discordant=11) is None
    assert futility_lead(replace(design, gamma=0.0), pairs=32, discordant=11) is None


def test_a_difference_that_is_no_difference_is_refused() -> None:
    with pytest.raises(ValueError, match="not 2"):
        SequentialState().after(2)


def test_a_look_at_the_end_has_no_conditional_power() -> None:
    state = SequentialState(pairs=60, surviving=(1.0,))

    assert look(SequentialDesign(), state).conditional_power is None


@pytest.mark.parametrize(
    "broken", [{"alpha": 0.0}, {"n_min": 61}, {"batch": 0}, {"rho": 0.0}, {"gamma": 1.0}]
)
def test_a_design_that_makes_no_sense_is_refused(broken: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        replace(SequentialDesign(), **broken)  # type: ignore[arg-type]


def test_a_simulation_is_repeatable_by_its_seed() -> None:
    rates = PairRates(wins=0.2, losses=0.1, both=0.5, neither=0.2)

    one = sequential_operating_point(rates, SequentialDesign(), runs=500, seed=7)

    assert one == sequential_operating_point(rates, SequentialDesign(), runs=500, seed=7)
    assert one != sequential_operating_point(rates, SequentialDesign(), runs=500, seed=8)
