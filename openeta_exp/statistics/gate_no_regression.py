"""The original rule, kept for comparison with earlier results."""

from __future__ import annotations

from collections.abc import Sequence

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import (
    InfrastructureFilter,
    NoRegressionGate,
    StrategyThresholds,
    Terms,
)
from openeta_exp.domain.pair import ArmObservation, PairStatus, Side
from openeta_exp.domain.verdict import Ground, Reason
from openeta_exp.statistics.gate_ruling import Ruling
from openeta_exp.statistics.paired import mcnemar_exact


def rule_no_regression(
    gate: NoRegressionGate, comparison: PairedComparison, *, terms: Terms, exhausted: bool
) -> Ruling:
    """Decide once, when no further pair will come."""
    pairs = len(comparison.pairs)
    p_value = mcnemar_exact(len(comparison.improved), len(comparison.regressed))
    if not exhausted:
        return Ruling(
            pairs=pairs,
            reasons=(),
            p_value=p_value,
            n_max=comparison.scheduled,
            next_look=comparison.scheduled,
        )
    baseline = _kept(comparison, Side.BASELINE, rule=gate.infrastructure_filter)
    candidate = _kept(comparison, Side.CANDIDATE, rule=gate.infrastructure_filter)
    reasons = (*_regressions(baseline, candidate), *_counters(baseline, candidate))
    if gate.strategy is not None:
        reasons += _strategy_reasons(gate.strategy, candidate, terms=terms)
    if not reasons:
        won = sum(arm.objective_success for arm in candidate)
        reasons = (
            Reason(
                ground=Ground.NO_REGRESSION,
                message=f"no episode got worse; {won} of {len(candidate)} succeeded",
            ),
        )
    return Ruling(
        pairs=pairs, reasons=reasons, p_value=p_value, n_max=comparison.scheduled, whole=True
    )


def _kept(
    comparison: PairedComparison, side: Side, *, rule: InfrastructureFilter
) -> tuple[ArmObservation, ...]:
    if rule is InfrastructureFilter.PAIR:
        return tuple(pair.arm(side) for pair in comparison.pairs)
    arms = (pair.arm(side) for pair in comparison.observations if not pair.solved_at_reset)
    return tuple(arm for arm in arms if not arm.broke)


def _regressions(
    baseline: Sequence[ArmObservation], candidate: Sequence[ArmObservation]
) -> tuple[Reason, ...]:
    won = {arm.key for arm in candidate if arm.objective_success}
    lost = [str(arm.key) for arm in baseline if arm.objective_success and arm.key not in won]
    reasons = []
    if lost:
        reasons.append(Reason(ground=Ground.REGRESSION, message=f"regressed on {', '.join(lost)}"))
    if not won:
        reasons.append(Reason(ground=Ground.FLOOR, message="the candidate solved no episode"))
    return tuple(reasons)


def _counters(
    baseline: Sequence[ArmObservation], candidate: Sequence[ArmObservation]
) -> tuple[Reason, ...]:
    def guardrail(subject: str, before: int, after: int) -> Reason:
        return Reason(
            ground=Ground.GUARDRAIL, subject=subject, message=f"{subject}: {before} to {after}"
        )

    def count(arms: Sequence[ArmObservation], status: PairStatus) -> int:
        return sum(arm.status is status for arm in arms)

    reasons = []
    before, after = (sum(arm.objective_success for arm in arms) for arms in (baseline, candidate))
    if after < before:
        reasons.append(guardrail("objective_success", before, after))
    before, after = (count(arms, PairStatus.SUCCESS) for arms in (baseline, candidate))
    if after < before:
        reasons.append(guardrail("runtime_success", before, after))
    for status in (PairStatus.FAIL, PairStatus.NEED_HUMAN):
        before, after = (count(arms, status) for arms in (baseline, candidate))
        if after > before:
            reasons.append(guardrail(str(status), before, after))
    return tuple(reasons)


def _strategy_reasons(
    thresholds: StrategyThresholds, candidate: Sequence[ArmObservation], *, terms: Terms
) -> tuple[Reason, ...]:
    attempts, won = len(candidate), sum(arm.objective_success for arm in candidate)
    tasks = len({arm.key.task_id for arm in candidate})
    asked = sum(arm.asked_a_human for arm in candidate)
    checks = [
        (
            terms.canary_attempts >= thresholds.min_canary_attempts,
            Ground.TOO_FEW_PAIRS,
            f"needs {counted(thresholds.min_canary_attempts, 'canary attempt')}, has "
            f"{terms.canary_attempts}",
        ),
        (
            attempts >= thresholds.min_held_out_attempts,
            Ground.TOO_FEW_PAIRS,
            f"needs {counted(thresholds.min_held_out_attempts, 'held-out attempt')}, has "
            f"{attempts}",
        ),
        (
            tasks >= thresholds.min_tasks,
            Ground.TOO_FEW_TASKS,
            f"needs {counted(thresholds.min_tasks, 'task')}, has {tasks}",
        ),
        (
            won >= thresholds.min_success_rate * attempts,
            Ground.FLOOR,
            f"needs {thresholds.min_success_rate} successes per attempt, has {won} of {attempts}",
        ),
    ]
    reasons = [Reason(ground=ground, message=text) for held, ground, text in checks if not held]
    if asked:
        reasons.append(
            Reason(
                ground=Ground.GUARDRAIL,
                subject="human_interventions",
                message=f"{counted(asked, 'episode')} asked a human; a strategy may ask none",
            )
        )
    return tuple(reasons)
