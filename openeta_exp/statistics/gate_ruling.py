"""The success criterion of each mode, applied to the pairs so far."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.verdict import EvidencePoint, Ground, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a mode says.

    Attributes:
        pairs: Valid pairs consumed; later ones are overrun.
        reasons: Empty while the comparison should go on.
        p_value: One-sided; None in a mode without.
        n_max: Pairs at which it ends, as re-estimated; None if open-ended.
        next_look: Valid pairs at which it can decide next.
        whole: Broken pairs after the last valid one count too; they do not after an early stop.
        final: Nothing else can change the verdict.
    """

    pairs: int
    reasons: tuple[Reason, ...]
    p_value: float | None
    n_max: int | None
    next_look: int | None = None
    whole: bool = False
    final: bool = False
    path: tuple[EvidencePoint, ...] = ()

    @property
    def succeeded(self) -> bool:
        return any(
            reason.ground in (Ground.SUPERIOR, Ground.NONINFERIOR_CHEAPER, Ground.NO_REGRESSION)
            for reason in self.reasons
        )


def shortage_reasons(*, pairs: int, n_min: int, tasks: int, min_tasks: int) -> tuple[Reason, ...]:
    """What a comparison that is over lacked."""
    reasons = []
    if pairs < n_min:
        reasons.append(
            Reason(ground=Ground.TOO_FEW_PAIRS, message=f"needs {n_min} valid pairs, has {pairs}")
        )
    if tasks < min_tasks:
        reasons.append(
            Reason(ground=Ground.TOO_FEW_TASKS, message=f"needs {min_tasks} tasks, has {tasks}")
        )
    return tuple(reasons)


def undecided_reason(*, pairs: int, held_out_exhausted: bool) -> Reason:
    """A comparison that is over without having crossed a boundary."""
    if held_out_exhausted:
        return Reason(
            ground=Ground.HELDOUT_EXHAUSTED,
            message=f"no fresh held-out keys are left after {pairs} pairs, and none decided",
        )
    return Reason(
        ground=Ground.BUDGET, message=f"{pairs} pairs were used and no boundary was crossed"
    )
