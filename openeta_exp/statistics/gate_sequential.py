"""The default mode: replay the pairs so far through the sequential sign test."""

from __future__ import annotations

from collections.abc import Sequence

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import SequentialGate
from openeta_exp.domain.pair import PairObservation
from openeta_exp.domain.verdict import EvidencePoint, Ground, Reason
from openeta_exp.statistics.e_values import discordant_e_value
from openeta_exp.statistics.gate_ruling import Ruling, ending_reasons
from openeta_exp.statistics.paired import mcnemar_exact
from openeta_exp.statistics.sequential import Call, Look, SequentialRun, run
from openeta_exp.statistics.sequential_design import (
    Reestimation,
    SequentialDesign,
    futility_lead,
)


def design_of(gate: SequentialGate, *, alpha: float) -> SequentialDesign:
    """The test behind the settings, at the level the ledger leaves."""
    return SequentialDesign(
        alpha=alpha,
        n_max=gate.largest_n_max,
        n_min=gate.n_min,
        rho=gate.rho,
        batch=gate.batch,
        delta_min=gate.delta_min,
        gamma=gate.gamma,
        planned_discordance=gate.planned_discordance,
    )


def reestimation_of(gate: SequentialGate) -> Reestimation | None:
    if gate.n_max != "auto":
        return None
    smallest, largest = gate.n_max_bounds
    return Reestimation(smallest=smallest, largest=largest)


def rule_sequentially(
    gate: SequentialGate,
    comparison: PairedComparison,
    *,
    alpha: float,
    exhausted: bool,
    held_out_exhausted: bool = False,
) -> Ruling:
    """The first look that stops, if one did. Replaying makes a restart need no saved state."""
    pairs = comparison.pairs[: gate.largest_n_max]
    over = exhausted or len(pairs) == gate.largest_n_max
    first = _first_with_tasks(pairs, min_tasks=gate.min_tasks)
    played = run(
        design_of(gate, alpha=alpha),
        [pair.difference for pair in pairs],
        rule=reestimation_of(gate),
        exhausted=exhausted,
        not_before=len(pairs) + 1 if first is None else first,
    )
    reasons: tuple[Reason, ...] = ()
    if played.call in (Call.SUPERIOR, Call.WORSE, Call.FUTILE):
        reasons = (_reason(played),)
    elif played.call is Call.BUDGET or over:
        reasons = ending_reasons(
            pairs[: played.state.pairs],
            n_min=gate.n_min,
            min_tasks=gate.min_tasks,
            held_out_exhausted=held_out_exhausted and played.call is not Call.BUDGET,
        )
    state = played.state
    return Ruling(
        pairs=state.pairs,
        reasons=reasons,
        p_value=played.looks[-1].p_stage
        if played.looks
        else mcnemar_exact(state.wins, state.losses),
        n_max=played.design.n_max,
        next_look=None if reasons else _next_look(played.design, state.pairs),
        whole=not played.looks or not played.design.looks_after(state.pairs),
        path=tuple(_point(played.design, look) for look in played.looks),
    )


def _next_look(design: SequentialDesign, pairs: int) -> int:
    """Valid pairs at which the test looks next, given that it has not ended."""
    return next(n for n in range(pairs + 1, design.n_max + 1) if design.looks_after(n))


def _first_with_tasks(pairs: Sequence[PairObservation], *, min_tasks: int) -> int | None:
    """After how many pairs enough tasks were seen; None if they were not."""
    tasks: set[str] = set()
    for count, pair in enumerate(pairs, start=1):
        tasks.add(pair.key.task_id)
        if len(tasks) >= min_tasks:
            return count
    return None


def _reason(played: SequentialRun) -> Reason:
    look, design = played.looks[-1], played.design
    state = look.state
    counts = f"{state.wins} fixed, {state.losses} regressed of {counted(state.pairs, 'pair')}"
    match look.call:
        case Call.SUPERIOR:
            return Reason(
                ground=Ground.SUPERIOR,
                message=f"{counts}: {look.critical_wins} fixed were needed at this look "
                f"(stage-wise p={look.p_stage:.3g} at alpha {design.alpha:.3g})",
            )
        case Call.WORSE:
            return Reason(
                ground=Ground.WORSE, message=f"{counts}: the candidate loses beyond chance"
            )
        case _:
            power = 0.0 if look.conditional_power is None else look.conditional_power
            return Reason(
                ground=Ground.FUTILE,
                message=f"{counts}: even a true gain of {design.delta_min:.2f} would be found "
                f"with probability {power:.2f} by {counted(design.n_max, 'pair')}",
            )


def _point(design: SequentialDesign, look: Look) -> EvidencePoint:
    state = look.state
    discordant = state.wins + state.losses
    return EvidencePoint(
        pairs=state.pairs,
        wins=state.wins,
        losses=state.losses,
        wins_to_promote=look.critical_wins if look.critical_wins <= discordant else None,
        lead_to_continue=futility_lead(design, pairs=state.pairs, discordant=discordant),
        p_value=look.p_stage,
        e_value=discordant_e_value(state.wins, state.losses),
        conditional_power=look.conditional_power,
    )
