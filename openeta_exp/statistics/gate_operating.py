"""Operating characteristics of a gate as it is configured."""

from __future__ import annotations

from typing import assert_never

from openeta_exp.domain.gate import (
    AnytimeGate,
    FixedGate,
    Gate,
    NoRegressionGate,
    SequentialGate,
)
from openeta_exp.statistics.agent_model import PairRates
from openeta_exp.statistics.anytime_operating import AnytimeDesign, anytime_operating_point
from openeta_exp.statistics.gate_sequential import design_of, reestimation_of
from openeta_exp.statistics.no_regression import FailureReports, pass_probability
from openeta_exp.statistics.operating import (
    OperatingPoint,
    fixed_operating_point,
    sequential_operating_point,
)


def operating_point(
    gate: Gate,
    rates: PairRates,
    *,
    pairs: int,
    alpha: float | None = None,
    runs: int = 4_000,
    seed: int = 0,
) -> OperatingPoint:
    """How often a gate's success criterion is met, and after how many pairs.

    Guardrails and floors are left out: they can only block.

    Args:
        pairs: Pairs available.
        alpha: Level after the ledger; None takes the gate's own.
    """
    match gate:
        case SequentialGate():
            return sequential_operating_point(
                rates,
                design_of(gate, alpha=alpha or gate.alpha),
                runs=runs,
                seed=seed,
                rule=reestimation_of(gate),
                available=pairs,
            )
        case FixedGate():
            return fixed_operating_point(
                rates, pairs=min(gate.pairs, pairs), alpha=alpha or gate.alpha, midp=gate.midp
            )
        case AnytimeGate():
            return anytime_operating_point(
                rates, anytime_design(gate, alpha=alpha or gate.alpha, available=pairs)
            )
        case NoRegressionGate():
            return _no_regression_point(gate, rates, pairs=pairs)
        case _:
            assert_never(gate)


def _no_regression_point(gate: NoRegressionGate, rates: PairRates, *, pairs: int) -> OperatingPoint:
    """With the runtime counters, whose failures are assumed to be reported as usual."""
    most_failures = None
    if gate.strategy is not None:
        if pairs < gate.strategy.min_held_out_attempts:
            return OperatingPoint(promote=0.0, reject=1.0, mean_pairs=float(pairs))
        most_failures = int((1 - gate.strategy.min_success_rate) * pairs + 1e-9)
    promote = pass_probability(
        pairs,
        rates=rates,
        reports=FailureReports(),
        most_failures=most_failures,
        humans_allowed=gate.strategy is None,
    )
    return OperatingPoint(promote=promote, reject=1 - promote, mean_pairs=float(pairs))


def anytime_design(gate: AnytimeGate, *, alpha: float, available: int) -> AnytimeDesign:
    """The test behind the settings, at the level the ledger leaves."""
    return AnytimeDesign(
        alpha=alpha,
        n_max=most_pairs(gate, available=available),
        n_min=gate.n_min,
        delta_min=gate.delta_min,
        harm_alpha=gate.harm_alpha,
    )


def most_pairs(gate: Gate, *, available: int) -> int:
    """Valid pairs after which a gate ends at the latest: what a schedule should hold."""
    match gate:
        case SequentialGate():
            return min(gate.largest_n_max, available)
        case FixedGate():
            return min(gate.pairs, available)
        case AnytimeGate(n_max=n_max):
            return available if n_max is None else min(n_max, available)
        case NoRegressionGate():
            return available
        case _:
            assert_never(gate)
