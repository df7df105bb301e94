"""What may block a candidate that met the success criterion, as a table and as reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import (
    CostMetric,
    CostPolicy,
    CredibleHarm,
    Floor,
    Guardrails,
    HarmPolicy,
    NonInferiority,
    ReportOnly,
)
from openeta_exp.domain.pair import ArmObservation, Cost, PairObservation, PairStatus
from openeta_exp.domain.verdict import Effect, Ground, GuardrailRow, Reason, TaskEffect
from openeta_exp.statistics.floors import certified_rate
from openeta_exp.statistics.guardrails import (
    CostRatio,
    HarmTest,
    cost_ratio,
    credible_harm,
    non_inferiority,
)


def guardrail_rows(
    comparison: PairedComparison, *, guardrails: Guardrails, seed: int
) -> tuple[GuardrailRow, ...]:
    """The table, on the valid pairs. `seed` drives the bootstrap of the cost ratios."""
    pairs = comparison.pairs
    if not pairs:
        return ()
    rows = [
        _harm_row(pairs, "need_human", guardrails.need_human, lambda arm: arm.asked_a_human),
        _harm_row(pairs, "fail", guardrails.fail, lambda arm: arm.status is PairStatus.FAIL),
        _success_row(pairs, guardrails.runtime_success),
    ]
    if guardrails.cost is not None:
        rows += [
            row
            for metric in guardrails.cost.metrics
            if (row := _cost_row(pairs, metric, policy=guardrails.cost, seed=seed)) is not None
        ]
    return tuple(rows)


def blocking_reasons(
    rows: Sequence[GuardrailRow], tasks: Sequence[TaskEffect], *, guardrails: Guardrails
) -> tuple[Reason, ...]:
    """Every guardrail that refuses the candidate."""
    reasons = [
        Reason(
            ground=Ground.GUARDRAIL,
            subject=row.metric,
            message=f"{row.metric}: baseline {row.baseline:.3g}, candidate {row.candidate:.3g}, "
            f"90 % interval of the change {row.low:.3g}..{row.high:.3g} ({row.policy})",
        )
        for row in rows
        if row.blocks
    ]
    harmed = [task for task in tasks if task.harm_p <= guardrails.task_harm_alpha]
    if harmed:
        listed = ", ".join(
            f"{task.task_id} ({task.wins} fixed, {task.losses} regressed)" for task in harmed
        )
        reasons.append(
            Reason(
                ground=Ground.GUARDRAIL,
                subject="task",
                message=f"worse beyond chance on single tasks: {listed}",
            )
        )
    return tuple(reasons)


def floor_reasons(effect: Effect, *, floor: Floor | None) -> tuple[Reason, ...]:
    """Whether the candidate is good enough in absolute terms."""
    if floor is None:
        return ()
    successes = effect.both + effect.wins
    certified = certified_rate(successes, effect.pairs, rule=floor.rule)
    if certified >= floor.rate:
        return ()
    return (
        Reason(
            ground=Ground.FLOOR,
            message=f"{counted(successes, 'success', plural='successes')} of {effect.pairs}: the "
            f"certified rate is {certified:.3f} ({floor.rule}), below the floor of {floor.rate}",
        ),
    )


def violation_reasons(comparison: PairedComparison) -> tuple[Reason, ...]:
    """Violations of the candidate on any pair that ran, used or not: none is tolerated."""
    reasons: list[Reason] = []
    ran = [pair.candidate for pair in (*comparison.observations, *comparison.overrun)]
    counters: dict[Ground, Callable[[ArmObservation], int]] = {
        Ground.SAFETY: lambda arm: arm.safety_violations,
        Ground.CONTRACT: lambda arm: arm.contract_violations,
    }
    for ground, count in counters.items():
        guilty = [arm for arm in ran if count(arm)]
        if guilty:
            reasons.append(
                Reason(
                    ground=ground,
                    message=f"{counted(sum(map(count, guilty)), f'{ground} violation')} of the "
                    "candidate, on " + ", ".join(str(arm.key) for arm in guilty),
                )
            )
    return tuple(reasons)


def _harm_row(
    pairs: Sequence[PairObservation],
    metric: str,
    policy: HarmPolicy,
    harmed: Callable[[ArmObservation], bool],
) -> GuardrailRow:
    test = _harm_test(pairs, policy, harmed)
    return GuardrailRow(
        metric=metric,
        policy=policy.kind,
        baseline=sum(harmed(pair.baseline) for pair in pairs) / len(pairs),
        candidate=sum(harmed(pair.candidate) for pair in pairs) / len(pairs),
        change=test.increase,
        low=test.interval.low,
        high=test.interval.high,
        p_value=test.p_value,
        blocks=test.blocks,
    )


def _success_row(pairs: Sequence[PairObservation], policy: HarmPolicy) -> GuardrailRow:
    """The runtime's own successes; here a fall is the harm."""
    row = _harm_row(
        pairs, "runtime_success", policy, lambda arm: arm.status is not PairStatus.SUCCESS
    )
    return row.model_copy(
        update={
            "baseline": 1 - row.baseline,
            "candidate": 1 - row.candidate,
            "change": -row.change,
            "low": -row.high,
            "high": -row.low,
        }
    )


def _harm_test(
    pairs: Sequence[PairObservation],
    policy: HarmPolicy,
    harmed: Callable[[ArmObservation], bool],
) -> HarmTest:
    baseline_only = sum(harmed(pair.baseline) and not harmed(pair.candidate) for pair in pairs)
    candidate_only = sum(harmed(pair.candidate) and not harmed(pair.baseline) for pair in pairs)
    match policy:
        case CredibleHarm(alpha=alpha, largest_increase=largest_increase):
            return credible_harm(
                candidate_only,
                baseline_only,
                pairs=len(pairs),
                alpha=alpha,
                largest_increase=largest_increase,
            )
        case NonInferiority(margin=margin):
            return non_inferiority(candidate_only, baseline_only, pairs=len(pairs), margin=margin)
        case ReportOnly():
            return credible_harm(
                candidate_only, baseline_only, pairs=len(pairs), alpha=0.0, largest_increase=1.0
            )
        case _:
            assert_never(policy)


def cost_of(cost: Cost, metric: CostMetric) -> float:
    match metric:
        case CostMetric.TOKENS:
            return float(cost.tokens)
        case CostMetric.TOOL_CALLS:
            return float(cost.tool_calls)
        case CostMetric.WALL_S:
            return cost.wall_s
        case _:
            assert_never(metric)


def paired_cost_ratio(
    pairs: Sequence[PairObservation], metric: CostMetric, *, replicates: int, seed: int
) -> CostRatio | None:
    """Mean cost of the candidate over the baseline's; None where the baseline costs nothing."""
    return cost_ratio(
        [cost_of(pair.baseline.cost, metric) for pair in pairs],
        [cost_of(pair.candidate.cost, metric) for pair in pairs],
        tasks=[pair.key.task_id for pair in pairs],
        seed=seed,
        replicates=replicates,
    )


def _cost_row(
    pairs: Sequence[PairObservation], metric: CostMetric, *, policy: CostPolicy, seed: int
) -> GuardrailRow | None:
    ratio = paired_cost_ratio(pairs, metric, replicates=policy.replicates, seed=seed)
    if ratio is None:
        return None
    return GuardrailRow(
        metric=metric,
        policy="cost",
        baseline=sum(cost_of(pair.baseline.cost, metric) for pair in pairs) / len(pairs),
        candidate=sum(cost_of(pair.candidate.cost, metric) for pair in pairs) / len(pairs),
        change=ratio.ratio,
        low=ratio.interval.low,
        high=ratio.interval.high,
        blocks=ratio.interval.low > policy.block_ratio,
        warns=ratio.ratio > policy.warn_ratio,
    )
