"""Judge a paired comparison: go on, or stop with a verdict and every reason for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import (
    PUBLISH_GATE,
    AnytimeGate,
    FixedGate,
    Gate,
    InfrastructureFilter,
    NoRegressionGate,
    SequentialGate,
    Terms,
)
from openeta_exp.domain.pair import Side
from openeta_exp.domain.verdict import (
    Effect,
    Exclusions,
    GateVerdict,
    Ground,
    GuardrailRow,
    Reason,
    TaskEffect,
    decide,
    weightiest_first,
)
from openeta_exp.statistics.e_values import discordant_e_value
from openeta_exp.statistics.gate_anytime import rule_anytime
from openeta_exp.statistics.gate_evidence import (
    effect_of,
    exclusions_of,
    identical_agent_passes,
    task_effects,
)
from openeta_exp.statistics.gate_fixed import rule_at_fixed_size
from openeta_exp.statistics.gate_guardrails import (
    blocking_reasons,
    floor_reasons,
    guardrail_rows,
    violation_reasons,
)
from openeta_exp.statistics.gate_no_regression import rule_no_regression
from openeta_exp.statistics.gate_preconditions import evidence_reasons, term_reasons
from openeta_exp.statistics.gate_ruling import Ruling
from openeta_exp.statistics.gate_sequential import rule_sequentially
from openeta_exp.statistics.planning import more_pairs_needed

_MORE_PAIRS_HELP = {Ground.BUDGET, Ground.TOO_FEW_PAIRS, Ground.HELDOUT_EXHAUSTED}


@dataclass(frozen=True, slots=True)
class Continue:
    """The comparison should go on.

    Attributes:
        pairs: Valid pairs so far.
        next_look: Valid pairs at which it can decide next.
        n_max: Valid pairs at which it ends at the latest; None if open-ended.
    """

    pairs: int
    next_look: int
    n_max: int | None


def review(
    comparison: PairedComparison, *, gate: Gate, terms: Terms, exhausted: bool = False
) -> Continue | GateVerdict:
    """Look at the longest complete prefix of a running comparison.

    A pure function of the prefix: called again with the same or a longer one it stops at the same
    pair, so nothing has to be saved between looks. Pairs that ran ahead change nothing, but for
    one thing: a violation of the candidate counts wherever it was seen.

    Args:
        exhausted: No further pair will come: the schedule is complete or money is spent.
    """
    unanswerable = term_reasons(comparison, gate=gate, terms=terms)
    if unanswerable:
        unanswerable = (*evidence_reasons(comparison, gate=gate, terms=terms), *unanswerable)
        return _unanswered(comparison, unanswerable, gate, terms)
    ruling = _rule(comparison, gate=gate, terms=terms, exhausted=exhausted)
    # What came after the stop is as if it had not been run: its speed decided that it was.
    used = comparison.first(ruling.pairs) if ruling.reasons and not ruling.whole else comparison
    unanswerable = evidence_reasons(used, gate=gate, terms=terms)
    if unanswerable:
        return _unanswered(comparison, unanswerable, gate, terms)
    violations = violation_reasons(comparison)
    if violations:
        stopped = replace(ruling, reasons=violations, whole=True, final=True)
        return _verdict(comparison, stopped, gate, terms)
    if ruling.reasons:
        return _verdict(comparison, ruling, gate, terms)
    if _loses_too_many(comparison, gate=gate):
        return _verdict(comparison, replace(ruling, whole=True), gate, terms)
    return Continue(len(comparison.pairs), ruling.next_look or 0, ruling.n_max)


def _unanswered(
    comparison: PairedComparison, reasons: tuple[Reason, ...], gate: Gate, terms: Terms
) -> GateVerdict:
    unruled = Ruling(pairs=0, reasons=reasons, p_value=None, n_max=None, final=True)
    return _verdict(comparison, unruled, gate, terms)


def judge(comparison: PairedComparison, *, gate: Gate, terms: Terms) -> GateVerdict:
    """The verdict on a comparison to which no pair will be added."""
    match review(comparison, gate=gate, terms=terms, exhausted=True):
        case GateVerdict() as verdict:
            return verdict
        case Continue():
            raise AssertionError("a comparison that is over has a verdict")


def effective_alpha(gate: Gate, terms: Terms) -> float | None:
    """The gate's level, lowered by the ledger; None in the mode that has none."""
    if isinstance(gate, NoRegressionGate):
        return None
    return gate.alpha if terms.alpha_cap is None else min(gate.alpha, terms.alpha_cap)


def resampling_seed(comparison: PairedComparison, terms: Terms) -> int:
    if terms.resampling_seed is not None:
        return terms.resampling_seed
    return int(comparison.schedule_digest[:8], 16)


def _rule(comparison: PairedComparison, *, gate: Gate, terms: Terms, exhausted: bool) -> Ruling:
    alpha = effective_alpha(gate, terms) or 0.0
    match gate:
        case SequentialGate():
            return rule_sequentially(
                gate,
                comparison,
                alpha=alpha,
                exhausted=exhausted,
                held_out_exhausted=terms.held_out_exhausted,
            )
        case FixedGate():
            return rule_at_fixed_size(
                gate,
                comparison,
                alpha=alpha,
                exhausted=exhausted,
                seed=resampling_seed(comparison, terms),
                held_out_exhausted=terms.held_out_exhausted,
            )
        case AnytimeGate():
            return rule_anytime(
                gate,
                comparison,
                alpha=alpha,
                exhausted=exhausted,
                held_out_exhausted=terms.held_out_exhausted,
            )
        case NoRegressionGate():
            return rule_no_regression(gate, comparison, terms=terms, exhausted=exhausted)
        case _:
            assert_never(gate)


def _loses_too_many(comparison: PairedComparison, *, gate: Gate) -> bool:
    """A candidate that crashes all the time need not be run to the end.

    Asks for both signs of uneven loss, because this is looked at again and again.
    """
    if not judges_exclusions(gate):
        return False
    seen = exclusions_of(comparison, limits=gate.guardrails)
    n_min = 1 if isinstance(gate, NoRegressionGate) else gate.n_min
    return (
        len(comparison.pairs) + seen.broken >= n_min
        and seen.share > gate.guardrails.largest_excluded_share
        and seen.candidate_breaks > seen.baseline_breaks
        and seen.p_value <= gate.guardrails.exclusion_alpha
    )


def _reasons(
    ruling: Ruling,
    *,
    gate: Gate,
    rows: tuple[GuardrailRow, ...],
    tasks: tuple[TaskEffect, ...],
    effect: Effect,
    exclusions: Exclusions,
) -> tuple[Reason, ...]:
    """Every reason, the weightiest first. What blocks a success replaces it."""
    blockers: list[Reason] = []
    if ruling.succeeded and not isinstance(gate, NoRegressionGate):
        blockers += blocking_reasons(rows, tasks, guardrails=gate.guardrails)
        blockers += floor_reasons(effect, floor=gate.floor)
    if judges_exclusions(gate):
        blockers += _exclusion_reasons(exclusions)
    reasons = blockers if ruling.succeeded and blockers else [*blockers, *ruling.reasons]
    return weightiest_first(reasons)


def judges_exclusions(gate: Gate) -> bool:
    """Whether lost pairs count; the original filter by arm has no notion of them."""
    return not (
        isinstance(gate, NoRegressionGate)
        and gate.infrastructure_filter is InfrastructureFilter.PER_ARM
    )


def _exclusion_reasons(exclusions: Exclusions) -> list[Reason]:
    if not exclusions.differential:
        return []
    return [
        Reason(
            ground=Ground.DIFFERENTIAL_EXCLUSION,
            message=f"attempts broke for the candidate only in "
            f"{counted(exclusions.candidate_breaks, 'pair')}, for the baseline only in "
            f"{exclusions.baseline_breaks} (p={exclusions.p_value:.3g}); "
            f"{counted(exclusions.broken, 'pair')} ({100 * exclusions.share:.0f} %) had no verdict "
            "in the end; were every one that the candidate lost so a failure, "
            f"{exclusions.worst_case_wins} fixed and {exclusions.worst_case_losses} regressed",
        )
    ]


def _more_pairs(
    reasons: tuple[Reason, ...], effect: Effect, *, gate: Gate, alpha: float | None
) -> int | None:
    """None as well where something else than pairs is missing, such as a second task."""
    if isinstance(gate, NoRegressionGate) or not alpha:
        return None
    if not {reason.ground for reason in reasons} <= _MORE_PAIRS_HELP:
        return None
    return more_pairs_needed(
        effect.wins, effect.losses, pairs=effect.pairs, alpha=alpha, n_min=gate.n_min
    )


def _verdict(comparison: PairedComparison, ruling: Ruling, gate: Gate, terms: Terms) -> GateVerdict:
    used = comparison
    if not ruling.whole or ruling.pairs < len(comparison.pairs):
        used = comparison.first(ruling.pairs)
    seed = resampling_seed(comparison, terms)
    worthwhile = PUBLISH_GATE if isinstance(gate, NoRegressionGate) else gate
    effect = effect_of(used, delta_min=worthwhile.delta_min)
    tasks = task_effects(used)
    rows = guardrail_rows(used, guardrails=gate.guardrails, seed=seed)
    exclusions = exclusions_of(used, limits=gate.guardrails)
    reasons = ruling.reasons
    if not ruling.final:
        reasons = _reasons(
            ruling, gate=gate, rows=rows, tasks=tasks, effect=effect, exclusions=exclusions
        )
    alpha = effective_alpha(gate, terms)
    return GateVerdict(
        decision=decide(reasons),
        reasons=reasons,
        mode=gate.mode,
        tier=terms.tier,
        alpha=alpha,
        p_value=ruling.p_value,
        e_value=discordant_e_value(effect.wins, effect.losses),
        n_max=ruling.n_max,
        effect=effect,
        tasks=tasks,
        guardrails=rows,
        exclusions=exclusions,
        path=ruling.path,
        improved=used.improved,
        regressed=used.regressed,
        overrun=len(used.overrun),
        unequal_starts=sum(not pair.began_alike for pair in used.pairs),
        more_pairs=_more_pairs(reasons, effect, gate=gate, alpha=alpha),
        baseline_cost=comparison.spent(Side.BASELINE),
        candidate_cost=comparison.spent(Side.CANDIDATE),
        schedule_digest=comparison.schedule_digest,
        resampling_seed=seed,
        identical_pass_probability=identical_agent_passes(effect, flakiness=terms.flakiness),
        flakiness=terms.flakiness,
    )
