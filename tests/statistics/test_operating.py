"""Error rates and sizes against the figures of an independent simulation study.

The study ran 25,000 streams a cell and printed three digits.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from openeta_exp.statistics.agent_model import (
    AgentModel,
    PairRates,
    icc_from_pass_at_k,
    identical_discordance,
)
from openeta_exp.statistics.anytime_operating import AnytimeDesign, anytime_operating_point
from openeta_exp.statistics.e_values import (
    discordant_e_value,
    log_discordant_e_value,
    log_gain_e_value,
)
from openeta_exp.statistics.no_regression import (
    FailureReports,
    identical_pass_probability,
    pass_probability,
)
from openeta_exp.statistics.operating import (
    fixed_operating_point,
    sequential_operating_point,
)
from openeta_exp.statistics.paired import mcnemar_exact, mcnemar_midp
from openeta_exp.statistics.planning import exact_pairs_needed, more_pairs_needed, plan
from openeta_exp.statistics.sequential_design import Reestimation, SequentialDesign

TYPICAL = AgentModel(success_rate=0.7, icc=0.5)
RUNS = 8_000


def tolerance(published: float) -> float:
    """Four standard errors of the difference of two simulations, and rounding."""
    spread = max(published * (1 - published), 0.001)
    return 4 * math.sqrt(spread * (1 / RUNS + 1 / 25_000)) + 0.0005


@pytest.mark.parametrize(
    ("n_max", "success_rate", "icc", "effect", "promoted", "pairs"),
    [
        (60, 0.7, 0.5, -0.10, 0.001, 26),
        (60, 0.7, 0.5, 0.0, 0.038, 36),
        (60, 0.7, 0.5, 0.10, 0.447, 45),
        (60, 0.7, 0.5, 0.20, 0.964, 33),
        (60, 0.5, 0.2, 0.0, 0.042, 31),
        (60, 0.5, 0.2, 0.20, 0.714, 39),
        (60, 0.9, 0.8, 0.0, 0.002, 39),
        (60, 0.9, 0.8, 0.05, 0.177, 49),
        (100, 0.7, 0.5, 0.0, 0.045, 59),
        (100, 0.7, 0.5, 0.10, 0.656, 69),
    ],
)
def test_the_sequential_gate_has_the_published_error_power_and_size(
    n_max: int, success_rate: float, icc: float, effect: float, promoted: float, pairs: float
) -> None:
    design = SequentialDesign(n_max=n_max, delta_min=0.15 if n_max == 60 else 0.125)
    rates = AgentModel(success_rate=success_rate, icc=icc).against(effect)

    point = sequential_operating_point(rates, design, runs=RUNS, seed=11)

    assert point.promote == pytest.approx(promoted, abs=tolerance(promoted))
    assert point.mean_pairs == pytest.approx(pairs, abs=1.2)


@pytest.mark.parametrize("icc", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("success_rate", [0.5, 0.7, 0.9])
def test_re_estimated_sizes_keep_the_false_promotion_rate(success_rate: float, icc: float) -> None:
    rates = AgentModel(success_rate=success_rate, icc=icc).against(0.0)

    point = sequential_operating_point(
        rates, SequentialDesign(), runs=RUNS, seed=2, rule=Reestimation()
    )

    assert point.promote <= 0.05 + 3 * point.standard_error


@pytest.mark.parametrize(
    ("pairs", "effect", "exact", "midp"),
    [
        (20, 0.0, 0.009, 0.027),
        (20, 0.20, 0.358, 0.547),
        (50, 0.0, 0.024, 0.043),
        (50, 0.10, 0.346, 0.451),
        (100, 0.20, 0.999, 1.000),
    ],
)
def test_the_fixed_test_has_the_published_power(
    pairs: int, effect: float, exact: float, midp: float
) -> None:
    rates = TYPICAL.against(effect)

    for expected, is_midp in ((exact, False), (midp, True)):
        point = fixed_operating_point(rates, pairs=pairs, alpha=0.05, midp=is_midp)
        assert point.promote == pytest.approx(expected, abs=0.0006)


@pytest.mark.parametrize("midp", [False, True])
def test_the_fixed_test_is_enumerated_as_defined(midp: bool) -> None:
    rates, pairs = PairRates(wins=0.3, losses=0.2, both=0.4, neither=0.1), 12
    test = mcnemar_midp if midp else mcnemar_exact

    brute = sum(
        math.factorial(pairs)
        / (math.factorial(w) * math.factorial(b) * math.factorial(pairs - w - b))
        * 0.3**w
        * 0.2**b
        * 0.5 ** (pairs - w - b)
        for w in range(pairs + 1)
        for b in range(pairs + 1 - w)
        if test(w, b) <= 0.05
    )

    point = fixed_operating_point(rates, pairs=pairs, alpha=0.05, midp=midp)
    assert point.promote == pytest.approx(brute, abs=1e-12)


@pytest.mark.parametrize(
    ("pairs", "effect", "counted", "core"),
    [
        (2, 0.0, 0.67, 0.76),
        (2, -0.10, 0.55, 0.64),
        (6, 0.0, 0.38, 0.51),
        (6, 0.20, 0.83, 0.92),
        (20, 0.0, 0.07, 0.11),
        (20, 0.10, 0.27, 0.35),
    ],
)
def test_the_original_rule_has_the_published_error_rates(
    pairs: int, effect: float, counted: float, core: float
) -> None:
    rates = TYPICAL.against(effect)

    # The study simulated the counters and printed two digits.
    assert pass_probability(pairs, rates=rates, reports=FailureReports()) == pytest.approx(
        counted, abs=0.012
    )
    assert pass_probability(pairs, rates=rates) == pytest.approx(core, abs=0.0051)


def test_the_original_rule_promotes_an_identical_agent_about_every_second_time_at_six() -> None:
    assert identical_pass_probability(6, loss_rate=0.105, neither_rate=0.195) == pytest.approx(
        0.51, abs=0.005
    )


@pytest.mark.parametrize(
    ("candidate", "expected"), [(0.80, 0.05), (0.85, 0.13), (0.90, 0.32), (0.95, 0.66)]
)
def test_the_original_strategy_gate_has_the_published_pass_rates(
    candidate: float, expected: float
) -> None:
    passed = pass_probability(
        20,
        rates=TYPICAL.against(candidate - 0.7),
        reports=FailureReports(),
        most_failures=1,
        humans_allowed=False,
    )

    assert passed == pytest.approx(expected, abs=0.006)


def test_the_original_rule_is_enumerated_as_defined() -> None:
    """Every outcome of three pairs, statuses included."""
    rates = PairRates(wins=0.25, losses=0.15, both=0.4, neither=0.2)
    reports = FailureReports()
    shares = {"s": reports.success, "f": reports.fail, "h": reports.need_human}
    cells = [(rates.both, 1, 1, "S", "S", 1.0)]
    cells += [(rates.wins, 0, 1, before, "S", p) for before, p in shares.items()]
    cells += [(rates.losses, 1, 0, "S", after, p) for after, p in shares.items()]
    cells += [
        (rates.neither, 0, 0, before, after, p * q)
        for before, p in shares.items()
        for after, q in shares.items()
    ]
    total = 0.0
    for first in cells:
        for second in cells:
            for third in cells:
                run = (first, second, third)
                before = "".join(cell[3] for cell in run).lower()
                after = "".join(cell[4] for cell in run).lower()
                if (
                    all(cell[1] <= cell[2] for cell in run)
                    and any(cell[2] for cell in run)
                    and after.count("s") >= before.count("s")
                    and after.count("f") <= before.count("f")
                    and after.count("h") <= before.count("h")
                ):
                    total += math.prod(cell[0] * cell[5] for cell in run)

    assert pass_probability(3, rates=rates, reports=reports) == pytest.approx(total)


@pytest.mark.parametrize(
    ("n_max", "effect", "promoted", "pairs"),
    [(50, 0.0, 0.009, 50), (50, 0.10, 0.170, 48), (50, 0.20, 0.781, 36), (200, 0.10, 0.766, 120)],
)
def test_the_anytime_gate_has_the_published_power(
    n_max: int, effect: float, promoted: float, pairs: float
) -> None:
    point = anytime_operating_point(
        TYPICAL.against(effect), AnytimeDesign(n_max=n_max, harm_alpha=0.0)
    )

    assert point.promote == pytest.approx(promoted, abs=0.012)
    assert point.mean_pairs == pytest.approx(pairs, abs=1.2)


def test_the_anytime_gate_is_enumerated_as_defined() -> None:
    rates = PairRates(wins=0.6, losses=0.1, both=0.2, neither=0.1)
    design = AnytimeDesign(n_max=14, harm_alpha=0.0)
    generator = np.random.default_rng(5)
    streams = generator.choice([1, -1, 0], p=[0.6, 0.1, 0.3], size=(1500, 14))
    promoted = 0
    for stream in streams:
        wins, losses = np.cumsum(stream == 1), np.cumsum(stream == -1)
        promoted += any(
            discordant_e_value(int(w), int(b)) >= 20 for w, b in zip(wins, losses, strict=True)
        )

    point = anytime_operating_point(rates, design)

    error = math.sqrt(point.promote * (1 - point.promote) / 1500)
    assert promoted / 1500 == pytest.approx(point.promote, abs=4 * error)


def test_a_thousand_pairs_of_the_anytime_gate_are_enumerated_as_defined() -> None:
    rates, runs = TYPICAL.against(0.05), 500
    design = AnytimeDesign(n_max=1_000, n_min=30, alpha=0.01, harm_alpha=0.02)
    generator = np.random.default_rng(8)
    cells = [rates.wins, rates.losses, rates.both + rates.neither]
    streams = generator.choice(np.array([1, -1, 0], dtype=np.int8), p=cells, size=(runs, 1_000))
    wins, losses = np.cumsum(streams == 1, axis=1), np.cumsum(streams == -1, axis=1)
    pairs, enough = np.arange(1, 1_001), -math.log(0.02)
    promotes = log_discordant_e_value(wins, losses) >= -math.log(0.01)
    gives_up = log_discordant_e_value(losses, wins) >= enough
    # In blocks, since the mixture has 64 bets for each of half a million looks.
    gives_up |= np.vstack(
        [
            log_gain_e_value(lost, won, pairs=pairs, at_most=-0.15) >= enough
            for lost, won in zip(losses, wins, strict=True)
        ]
    )
    stops = (promotes | gives_up) & (pairs >= 30)
    first = np.where(stops.any(axis=1), stops.argmax(axis=1), 999)
    promoted = (stops & promotes)[np.arange(runs), first].mean()

    point = anytime_operating_point(rates, design)

    error = math.sqrt(point.promote * (1 - point.promote) / runs)
    assert promoted == pytest.approx(point.promote, abs=4 * error)
    assert (first + 1).mean() == pytest.approx(point.mean_pairs, abs=4 * first.std() / runs**0.5)
    assert 0.05 < point.promote < 0.95
    assert point.promote + point.reject == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("most_failures", [None, 240])
@pytest.mark.parametrize("humans_allowed", [True, False])
def test_a_thousand_pairs_of_the_original_rule_are_enumerated_as_defined(
    most_failures: int | None, humans_allowed: bool
) -> None:
    rates = PairRates(wins=0.002, losses=0.0005, both=0.7595, neither=0.238)
    # Both fail alike, so that the counters decide.
    reports = FailureReports(success=0.02, fail=0.975, need_human=0.005)
    runs, generator = 40_000, np.random.default_rng(4)
    wins, lost, _, failed = generator.multinomial(
        1_000, [rates.wins, rates.losses, rates.both, rates.neither], size=runs
    ).T
    shares = [reports.success, reports.fail, reports.need_human]
    before = generator.multinomial(wins + failed, shares)
    after = generator.multinomial(failed, shares)
    passes = (lost == 0) & (after[:, 0] + wins >= before[:, 0])
    passes &= (after[:, 1] <= before[:, 1]) & (after[:, 2] <= before[:, 2])
    if most_failures is not None:
        passes &= failed <= most_failures
    if not humans_allowed:
        passes &= after[:, 2] == 0

    passed = pass_probability(
        1_000,
        rates=rates,
        reports=reports,
        most_failures=most_failures,
        humans_allowed=humans_allowed,
    )

    error = math.sqrt(passed * (1 - passed) / runs)
    assert passes.mean() == pytest.approx(passed, abs=4 * error)
    assert passed > 0.02


def test_without_reports_the_original_rule_asks_for_no_loss_and_a_success() -> None:
    rates = PairRates(wins=0.01, losses=0.001, both=0.8, neither=0.189)

    for pairs in (1, 40, 1_000):
        assert pass_probability(pairs, rates=rates) == pytest.approx(
            identical_pass_probability(pairs, loss_rate=0.001, neither_rate=0.189), rel=1e-10
        )
    assert pass_probability(40, rates=rates, most_failures=1) == pytest.approx(
        0.81**40 + 40 * 0.81**39 * 0.189, rel=1e-10
    )


@pytest.mark.parametrize(
    ("effect", "promoted", "pairs"),
    [(-0.10, 0.0, 523.809), (0.0, 0.029, 841.006), (0.05, 0.91575, 507.237)],
)
def test_a_thousand_pairs_are_simulated_without_leaving_anything_out(
    effect: float, promoted: float, pairs: float
) -> None:
    """The figures are those of the simulation that carried every count of every stream along."""
    design = SequentialDesign(n_max=1_000, alpha=1 / 30)

    point = sequential_operating_point(TYPICAL.against(effect), design, runs=4_000, seed=0)

    assert (point.promote, point.mean_pairs) == (promoted, pairs)


@pytest.mark.parametrize(
    ("success_rate", "icc", "effect", "connor", "exact"),
    [
        (0.5, 0.2, 0.10, 247, 265),
        (0.5, 0.5, 0.30, 21, 24),
        (0.7, 0.5, 0.10, 123, 135),
        (0.7, 0.5, 0.15, 56, 62),
        (0.7, 0.8, 0.15, 40, 45),
        (0.9, 0.8, 0.05, 128, 139),
    ],
)
def test_plans_match_the_published_sizes(
    success_rate: float, icc: float, effect: float, connor: int, exact: int
) -> None:
    model = AgentModel(success_rate=success_rate, icc=icc)

    seen = plan(model, effect=effect, runs=200)

    assert (seen.approximate_pairs, seen.n_max) == (connor, exact)


def test_a_plan_tells_what_each_outcome_would_cost() -> None:
    seen = plan(TYPICAL, effect=0.15, runs=RUNS)

    assert seen.if_gain.promote == pytest.approx(0.79, abs=0.03)
    assert seen.if_gain.mean_pairs == pytest.approx(42, abs=1.2)
    assert seen.if_equal.mean_pairs == pytest.approx(37, abs=1.2)
    assert seen.if_harm.mean_pairs == pytest.approx(23, abs=1.2)
    assert exact_pairs_needed(TYPICAL, effect=0.15) == seen.n_max


def test_more_pairs_are_promised_only_to_a_candidate_that_is_ahead() -> None:
    assert more_pairs_needed(0, 0, pairs=40, alpha=0.05) is None
    assert more_pairs_needed(3, 5, pairs=40, alpha=0.05) is None
    assert more_pairs_needed(0, 0, pairs=0, alpha=0.05) is None
    assert more_pairs_needed(8, 4, pairs=40, alpha=0.05) == 144
    assert more_pairs_needed(20, 0, pairs=20, alpha=0.05) == 1


def test_a_promise_holds_no_fewer_pairs_than_the_gate_needs_to_decide() -> None:
    assert more_pairs_needed(3, 0, pairs=5, alpha=0.05, n_min=20) == 15
    assert more_pairs_needed(8, 4, pairs=40, alpha=0.05, n_min=20) == 144


@pytest.mark.parametrize(
    ("success_rate", "icc", "effect", "discordance"),
    [
        (0.5, 0.2, 0.10, 0.40),
        (0.5, 0.5, 0.30, 0.34),
        (0.7, 0.5, 0.10, 0.20),
        (0.9, 0.8, 0.05, 0.05),
    ],
)
def test_the_agent_model_predicts_the_published_discordance(
    success_rate: float, icc: float, effect: float, discordance: float
) -> None:
    rates = AgentModel(success_rate=success_rate, icc=icc).against(effect)

    assert rates.discordance == pytest.approx(discordance, abs=0.006)
    assert rates.wins - rates.losses == pytest.approx(effect)


@pytest.mark.parametrize("icc", [0.0, 0.3, 1.0])
def test_two_runs_of_one_agent_disagree_as_its_icc_says(icc: float) -> None:
    rates = AgentModel(success_rate=0.7, icc=icc).against(0.0)

    assert rates.discordance == pytest.approx(identical_discordance(0.7, icc), abs=1e-3)
    assert rates.wins == pytest.approx(rates.losses)


def test_a_perfect_or_hopeless_agent_has_no_discordance() -> None:
    for success_rate in (0.0, 1.0):
        rates = AgentModel(success_rate=success_rate).against(0.0)
        assert rates.discordance == 0.0
        for point in (
            fixed_operating_point(rates, pairs=30, alpha=0.05),
            sequential_operating_point(rates, SequentialDesign(), runs=50, seed=0),
            anytime_operating_point(rates, AnytimeDesign()),
        ):
            assert point.promote == 0.0


def test_an_agent_cannot_be_better_than_perfect() -> None:
    with pytest.raises(ValueError, match="does not exist"):
        TYPICAL.against(0.31)
    with pytest.raises(ValueError, match="lie in"):
        AgentModel(success_rate=1.2)
    with pytest.raises(ValueError, match="distribution"):
        PairRates(wins=0.5, losses=0.5, both=0.5, neither=0.0)


def test_repeated_attempts_reveal_the_icc() -> None:
    assert icc_from_pass_at_k(0.708, 0.900, k=5) == pytest.approx(0.49, abs=0.005)
    assert icc_from_pass_at_k(0.5, 0.5, k=3) == 1.0
    assert icc_from_pass_at_k(0.5, 0.875, k=3) == 0.0
    with pytest.raises(ValueError, match="lies between"):
        icc_from_pass_at_k(0.5, 0.95, k=3)
