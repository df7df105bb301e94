"""The open-ended mode: evidence that may be looked at after every pair."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import AnytimeGate
from openeta_exp.domain.verdict import Ground, Reason
from openeta_exp.statistics.clusters import cluster_means
from openeta_exp.statistics.e_values import (
    bounded_exp,
    log_discordant_e_value,
    log_gain_e_value,
    mean_gain_e_value,
)
from openeta_exp.statistics.gate_ruling import Ruling, ending_reasons, evidence_path


def rule_anytime(
    gate: AnytimeGate,
    comparison: PairedComparison,
    *,
    alpha: float,
    exhausted: bool,
    held_out_exhausted: bool = False,
) -> Ruling:
    """The first pair at which the evidence suffices, if there is one."""
    pairs = comparison.pairs[: gate.n_max]
    over = exhausted or (gate.n_max is not None and len(pairs) == gate.n_max)
    if len({pair.key.unit for pair in pairs}) < len(pairs):
        return _with_repeats(
            gate,
            comparison.first(len(pairs)),
            alpha=alpha,
            over=over,
            held_out_exhausted=held_out_exhausted,
        )
    evidence = _evidence([pair.difference for pair in pairs], delta_min=gate.delta_min)
    eligible = _eligible(gate, comparison)
    promotes = eligible & (evidence.gain >= -math.log(alpha))
    gives_up = np.zeros_like(promotes)
    if gate.harm_alpha > 0:
        enough = -math.log(gate.harm_alpha)
        gives_up = eligible & ((evidence.harm >= enough) | (evidence.shortfall >= enough))
    stops = np.flatnonzero(promotes | gives_up)
    used = int(stops[0]) + 1 if len(stops) else len(pairs)
    reasons: tuple[Reason, ...] = ()
    if len(stops):
        reasons = (_reason(evidence, used - 1, gate=gate, alpha=alpha),)
    elif over:
        reasons = ending_reasons(
            pairs,
            n_min=gate.n_min,
            min_tasks=gate.min_tasks,
            held_out_exhausted=held_out_exhausted and len(pairs) != gate.n_max,
        )
    strongest = float(evidence.gain[:used].max(initial=0.0))
    return Ruling(
        pairs=used,
        reasons=reasons,
        p_value=math.exp(-max(strongest, 0.0)),
        n_max=gate.n_max,
        next_look=None if reasons else len(pairs) + 1,
        whole=exhausted and not len(stops),
        path=evidence_path(pairs[:used]),
    )


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Logarithms of e-values after every pair, `[pairs]`.

    Attributes:
        gain: Against "no better".
        harm: Against "no worse".
        shortfall: Against "better by at least delta_min".
    """

    wins: NDArray[np.int64]
    losses: NDArray[np.int64]
    gain: NDArray[np.float64]
    harm: NDArray[np.float64]
    shortfall: NDArray[np.float64]


def _evidence(differences: list[int], *, delta_min: float) -> _Evidence:
    steps = np.asarray(differences, dtype=np.int64)
    wins, losses = np.cumsum(np.maximum(steps, 0)), np.cumsum(np.maximum(-steps, 0))
    count = np.arange(1, len(steps) + 1)
    return _Evidence(
        wins=wins,
        losses=losses,
        gain=log_discordant_e_value(wins, losses),
        harm=log_discordant_e_value(losses, wins),
        shortfall=log_gain_e_value(losses, wins, pairs=count, at_most=-delta_min),
    )


def _eligible(gate: AnytimeGate, comparison: PairedComparison) -> NDArray[np.bool_]:
    """After which pairs there were enough pairs and tasks to decide, `[pairs]`."""
    tasks: set[str] = set()
    eligible = []
    for count, pair in enumerate(comparison.pairs[: gate.n_max], start=1):
        tasks.add(pair.key.task_id)
        eligible.append(count >= gate.n_min and len(tasks) >= gate.min_tasks)
    return np.asarray(eligible, dtype=np.bool_)


def _reason(evidence: _Evidence, last: int, *, gate: AnytimeGate, alpha: float) -> Reason:
    counts = (
        f"{evidence.wins[last]} fixed, {evidence.losses[last]} regressed of "
        f"{counted(last + 1, 'pair')}"
    )
    gain = bounded_exp(float(evidence.gain[last]))
    if evidence.gain[last] >= -math.log(alpha):
        return Reason(
            ground=Ground.SUPERIOR, message=f"{counts}: e-value {gain:.3g} of {1 / alpha:.3g}"
        )
    if evidence.harm[last] >= -math.log(gate.harm_alpha):
        return Reason(ground=Ground.WORSE, message=f"{counts}: the candidate loses beyond chance")
    return Reason(
        ground=Ground.FUTILE,
        message=f"{counts}: a gain of {gate.delta_min:.2f} is ruled out",
    )


def _with_repeats(
    gate: AnytimeGate,
    used: PairedComparison,
    *,
    alpha: float,
    over: bool,
    held_out_exhausted: bool,
) -> Ruling:
    """Reruns of one episode are one observation, their mean, and are read once, at the end."""
    pairs = used.pairs
    if not over:
        return Ruling(
            pairs=len(pairs),
            reasons=(),
            p_value=1.0,
            n_max=gate.n_max,
            next_look=used.scheduled,
        )
    means = list(cluster_means(used.differences, [pair.key.unit for pair in pairs]).values())
    e_value = mean_gain_e_value(means)
    tasks = len({pair.key.task_id for pair in pairs})
    told = (
        f"{counted(len(means), 'episode')} over {counted(len(pairs), 'run')}: e-value "
        f"{e_value:.3g} of {1 / alpha:.3g}"
    )
    if e_value >= 1 / alpha and len(means) >= gate.n_min and tasks >= gate.min_tasks:
        reasons: tuple[Reason, ...] = (Reason(ground=Ground.SUPERIOR, message=told),)
    else:
        reasons = ending_reasons(
            pairs,
            n_min=gate.n_min,
            min_tasks=gate.min_tasks,
            held_out_exhausted=held_out_exhausted,
        )
    return Ruling(
        pairs=len(pairs),
        reasons=reasons,
        p_value=min(1.0, 1 / e_value),
        n_max=gate.n_max,
        whole=True,
        path=evidence_path(pairs),
    )
