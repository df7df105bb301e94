"""Whether a comparison can be answered at all. What cannot is inconclusive, never a loss."""

from __future__ import annotations

from collections.abc import Sequence

from openeta_exp.domain.comparison import PairedComparison, incomparable_fields
from openeta_exp.domain.gate import Gate, NoRegressionGate, Terms, uses_repeats
from openeta_exp.domain.pair import PairKey
from openeta_exp.domain.verdict import Ground, Reason


def term_reasons(comparison: PairedComparison, *, gate: Gate, terms: Terms) -> tuple[Reason, ...]:
    """Every precondition that does not hold whatever the pairs say."""
    reasons = []
    if terms.schedule_digest not in (None, comparison.schedule_digest):
        reasons.append(
            incomparable("schedule", "the schedule is not the one recorded before running")
        )
    if terms.flakiness is not None and terms.flakiness.alarm:
        reasons.append(
            Reason(
                ground=Ground.AA_FAILED,
                message="two runs of the same agent differ in one direction "
                f"(p={terms.flakiness.p_value:.3g}): a cache, an order effect or a drift",
            )
        )
    if not uses_repeats(gate) and (terms.shared_baseline or terms.held_out_reuse):
        reasons.append(
            incomparable(
                "independence",
                "baseline runs or keys are shared between comparisons: use mode anytime",
            )
        )
    if terms.alpha_cap == 0 and not isinstance(gate, NoRegressionGate):
        reasons.append(
            Reason(
                ground=Ground.BUDGET,
                message="the ledger's planned tests are used up; nothing is left to spend",
            )
        )
    return tuple(reasons)


def evidence_reasons(
    comparison: PairedComparison, *, gate: Gate, terms: Terms
) -> tuple[Reason, ...]:
    """Every precondition that the pairs of the prefix break."""
    return (
        *(
            incomparable(field, f"{field} is not the same throughout both arms")
            for field in incomparable_fields(comparison)
        ),
        *_tree_reasons(comparison, terms=terms),
        *_key_reasons(comparison, terms=terms),
        *_repeat_reasons(comparison, gate=gate),
    )


def incomparable(field: str, message: str) -> Reason:
    return Reason(ground=Ground.INCOMPARABLE, subject=field, message=message)


def _tree_reasons(comparison: PairedComparison, *, terms: Terms) -> list[Reason]:
    baseline = {pair.baseline.fingerprint.tree for pair in comparison.observations}
    candidate = {pair.candidate.fingerprint.tree for pair in comparison.observations}
    reasons = []
    if terms.accepted_tree is not None and baseline - {terms.accepted_tree}:
        reasons.append(
            incomparable("baseline_tree", "the baseline arm did not run the current baseline")
        )
    if baseline and baseline == candidate:
        reasons.append(
            incomparable("candidate_tree", "both arms ran the same tree: nothing was changed")
        )
    return reasons


def _key_reasons(comparison: PairedComparison, *, terms: Terms) -> list[Reason]:
    units = [pair.key.unit for pair in comparison.observations]
    reasons = []
    if seen := _shared(units, terms.train_keys):
        reasons.append(
            incomparable("train_keys", f"the author has seen these keys: {', '.join(seen)}")
        )
    if not terms.held_out_reuse and (seen := _shared(units, terms.spent_keys)):
        reasons.append(
            incomparable("held_out_reuse", f"used by an earlier comparison: {', '.join(seen)}")
        )
    return reasons


def _shared(units: Sequence[PairKey], known: Sequence[PairKey]) -> list[str]:
    known_units = {key.unit for key in known}
    return [str(unit) for unit in dict.fromkeys(units) if unit in known_units]


def _repeat_reasons(comparison: PairedComparison, *, gate: Gate) -> list[Reason]:
    units = [pair.key.unit for pair in comparison.pairs]
    if uses_repeats(gate) or len(set(units)) == len(units):
        return []
    return [incomparable("repeats", "reruns of one episode are not independent: use mode anytime")]
