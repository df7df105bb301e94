"""The success criterion of each mode, applied to the pairs so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openeta_exp.domain.counting import counted
from openeta_exp.domain.pair import PairObservation
from openeta_exp.domain.verdict import EvidencePoint, Ground, Reason
from openeta_exp.statistics.e_values import bounded_exp, log_discordant_e_value

LARGEST_PATH = 200
"""Points kept for a plot; longer comparisons are thinned."""


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


def ending_reasons(
    pairs: Sequence[PairObservation],
    *,
    n_min: int,
    min_tasks: int,
    held_out_exhausted: bool,
) -> tuple[Reason, ...]:
    """Why a comparison that is over, and crossed no boundary, is undecided."""
    tasks = len({pair.key.task_id for pair in pairs})
    reasons = []
    if len(pairs) < n_min:
        reasons.append(
            Reason(
                ground=Ground.TOO_FEW_PAIRS,
                message=f"needs {counted(n_min, 'valid pair')}, has {len(pairs)}",
            )
        )
    if tasks < min_tasks:
        reasons.append(
            Reason(
                ground=Ground.TOO_FEW_TASKS,
                message=f"needs {counted(min_tasks, 'task')}, has {tasks}",
            )
        )
    if held_out_exhausted:
        reasons.append(
            Reason(
                ground=Ground.HELDOUT_EXHAUSTED,
                message=f"no fresh held-out keys are left after {counted(len(pairs), 'pair')}",
            )
        )
    if not reasons:
        reasons.append(
            Reason(
                ground=Ground.BUDGET,
                message=f"{counted(len(pairs), 'pair was', plural='pairs were')} used and no "
                "boundary was crossed",
            )
        )
    return tuple(reasons)


def evidence_path(pairs: Sequence[PairObservation]) -> tuple[EvidencePoint, ...]:
    """Counts and e-value after every pair, thinned where there are many."""
    differences = np.asarray([pair.difference for pair in pairs], dtype=np.int64)
    wins = np.cumsum(np.maximum(differences, 0))
    losses = np.cumsum(np.maximum(-differences, 0))
    log_e_values = log_discordant_e_value(wins, losses)
    stride = max(1, len(pairs) // LARGEST_PATH)
    kept = sorted({*range(stride - 1, len(pairs), stride), len(pairs) - 1}) if pairs else []
    return tuple(
        EvidencePoint(
            pairs=index + 1,
            wins=int(wins[index]),
            losses=int(losses[index]),
            e_value=bounded_exp(float(log_e_values[index])),
        )
        for index in kept
    )
