"""The mode whose size is chosen beforehand."""

from __future__ import annotations

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import FixedGate, NoninferiorCheaper, Target
from openeta_exp.domain.verdict import Ground, Reason
from openeta_exp.statistics.clusters import SMALLEST_TASKS, task_mean_test
from openeta_exp.statistics.gate_guardrails import paired_cost_ratio
from openeta_exp.statistics.gate_ruling import Ruling, ending_reasons, evidence_path
from openeta_exp.statistics.intervals import tango
from openeta_exp.statistics.paired import mcnemar_exact, mcnemar_midp
from openeta_exp.statistics.sequential import HARM_ALPHA


def rule_at_fixed_size(
    gate: FixedGate,
    comparison: PairedComparison,
    *,
    alpha: float,
    exhausted: bool,
    seed: int,
    held_out_exhausted: bool = False,
) -> Ruling:
    """Decide once, when the planned pairs are there or none will follow."""
    used = comparison.first(gate.pairs)
    pairs = len(used.pairs)
    p_value = _p_value(gate, used)
    min_tasks = gate.min_tasks
    if gate.target is Target.NEW_TASKS:
        min_tasks = max(min_tasks, SMALLEST_TASKS)
    reasons: tuple[Reason, ...] = ()
    if pairs == gate.pairs or exhausted:
        tasks = len({pair.key.task_id for pair in used.pairs})
        if pairs >= gate.n_min and tasks >= min_tasks:
            reasons = _verdict(gate, used, alpha=alpha, p_value=p_value, seed=seed)
        reasons = reasons or ending_reasons(
            used.pairs,
            n_min=gate.n_min,
            min_tasks=min_tasks,
            held_out_exhausted=held_out_exhausted and pairs < gate.pairs,
        )
    return Ruling(
        pairs=pairs,
        reasons=reasons,
        p_value=p_value,
        n_max=gate.pairs,
        next_look=None if reasons else gate.pairs,
        whole=pairs < gate.pairs,
        path=evidence_path(used.pairs),
    )


def _p_value(gate: FixedGate, used: PairedComparison) -> float:
    wins, losses = len(used.improved), len(used.regressed)
    if gate.target is Target.NEW_TASKS:
        tasks = [pair.key.task_id for pair in used.pairs]
        return task_mean_test(used.differences, tasks).p_value if len(set(tasks)) > 1 else 1.0
    return mcnemar_midp(wins, losses) if gate.midp else mcnemar_exact(wins, losses)


def _verdict(
    gate: FixedGate, used: PairedComparison, *, alpha: float, p_value: float, seed: int
) -> tuple[Reason, ...]:
    wins, losses = len(used.improved), len(used.regressed)
    counts = f"{wins} fixed, {losses} regressed of {counted(len(used.pairs), 'pair')}"
    if p_value <= alpha:
        return (
            Reason(
                ground=Ground.SUPERIOR, message=f"{counts}: p={p_value:.3g} at alpha {alpha:.3g}"
            ),
        )
    if mcnemar_exact(losses, wins) <= HARM_ALPHA:
        return (
            Reason(ground=Ground.WORSE, message=f"{counts}: the candidate loses beyond chance"),
        )
    if gate.noninferior_cheaper is not None:
        return _cheaper(gate.noninferior_cheaper, used, gate=gate, seed=seed)
    return ()


def _cheaper(
    rule: NoninferiorCheaper, used: PairedComparison, *, gate: FixedGate, seed: int
) -> tuple[Reason, ...]:
    policy = gate.guardrails.cost
    ratio = paired_cost_ratio(
        used.pairs,
        rule.metric,
        replicates=10_000 if policy is None else policy.replicates,
        seed=seed,
    )
    bound = tango(len(used.improved), len(used.regressed), pairs=len(used.pairs), level=0.90).low
    if ratio is None or bound <= -rule.margin or ratio.interval.high >= rule.largest_ratio:
        return ()
    return (
        Reason(
            ground=Ground.NONINFERIOR_CHEAPER,
            message=f"loses at most {counted(-100 * bound, 'point', spec='.0f')} (margin "
            f"{100 * rule.margin:.0f}), "
            f"{rule.metric} ×{ratio.ratio:.2f}, at most ×{ratio.interval.high:.2f}",
        ),
    )
