"""Whether any outcome whatever of a comparison could promote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from openeta_exp.domain.comparison import progress
from openeta_exp.domain.gate import (
    AnytimeGate,
    FixedGate,
    Floor,
    Gate,
    NoRegressionGate,
    SequentialGate,
    Terms,
)
from openeta_exp.domain.pair import (
    ArmObservation,
    Fingerprint,
    PairKey,
    PairObservation,
    PairStatus,
    Side,
)
from openeta_exp.domain.schedule import Schedule, ScheduledPair
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.statistics.anytime_operating import anytime_boundaries
from openeta_exp.statistics.floors import certified_rate
from openeta_exp.statistics.gate import effective_alpha, judge
from openeta_exp.statistics.gate_operating import anytime_design, most_pairs
from openeta_exp.statistics.gate_sequential import design_of, reestimation_of
from openeta_exp.statistics.sequential_streams import simulate

_TRIED_AT_ONCE = 250


def best_case(gate: Gate, *, pairs: int, tasks: int, terms: Terms) -> GateVerdict:
    """The verdict on the best candidate imaginable; it promotes if any outcome could."""
    # Fixing everything stops early, which a floor by lower bound may not accept. Then a candidate
    # that never fails may still pass if the baseline fails more rarely, and the stop comes later.
    best = _flawless(gate, pairs=pairs, fixed=pairs, tasks=tasks, terms=terms)
    if best.promotes or isinstance(gate, NoRegressionGate) or gate.floor is None:
        return best
    slower = (
        _flawless(gate, pairs=pairs, fixed=fixed, tasks=tasks, terms=terms)
        for fixed in _late_enough(gate, gate.floor, pairs=pairs, tasks=tasks, terms=terms)
    )
    return next((verdict for verdict in slower if verdict.promotes), best)


def _late_enough(
    gate: SequentialGate | FixedGate | AnytimeGate,
    floor: Floor,
    *,
    pairs: int,
    tasks: int,
    terms: Terms,
) -> Iterator[int]:
    """With how many fixed pairs the rule is met, and not before so many pairs that the floor is.

    Of all numbers of fixed pairs only these are worth a whole judgement.
    """
    alpha = effective_alpha(gate, terms)
    if not alpha or tasks < gate.min_tasks:
        return
    used = np.arange(most_pairs(gate, available=pairs) + 1)
    for most in range(pairs - 1, 0, -_TRIED_AT_ONCE):
        fixed = np.arange(most, max(0, most - _TRIED_AT_ONCE), -1)
        wins = used * fixed[:, None] // pairs
        for count, stop in zip(fixed, _successes(gate, wins, alpha=alpha), strict=True):
            if certified_rate(int(stop), int(stop), rule=floor.rule) >= floor.rate:
                yield int(count)


def _successes(
    gate: SequentialGate | FixedGate | AnytimeGate, wins: NDArray[np.int64], *, alpha: float
) -> NDArray[np.int64]:
    """`[streams]` pairs after which the rule is met by `[streams, pairs]` wins without a loss.

    0 if it is not.
    """
    match gate:
        case SequentialGate():
            ends = simulate(
                design_of(gate, alpha=alpha),
                np.diff(wins, axis=1).astype(np.int8),
                rule=reestimation_of(gate),
                not_before=gate.min_tasks,
            )
            return np.where(ends.promoted, ends.pairs, 0)
        case AnytimeGate():
            pairs = np.arange(wins.shape[1])
            stops = anytime_boundaries(anytime_design(gate, alpha=alpha, available=len(pairs) - 1))
            eligible = pairs >= max(gate.n_min, gate.min_tasks)
            succeeds = eligible & (wins >= stops.promoting_wins[0])
            gives_up = eligible & (wins <= stops.futile_wins[:, 0])
            first = np.argmax(succeeds | gives_up, axis=1)
            return np.where(succeeds[np.arange(len(wins)), first], first, 0)
        case FixedGate():
            # It uses all pairs there are, whatever happens in them.
            return np.zeros(len(wins), dtype=np.int64)
        case _:
            assert_never(gate)


def _flawless(gate: Gate, *, pairs: int, fixed: int, tasks: int, terms: Terms) -> GateVerdict:
    """The verdict if the candidate solved everything and the baseline all but `fixed` pairs."""
    observed = [
        _solved(index, tasks=tasks, fixed=(index + 1) * fixed // pairs > index * fixed // pairs)
        for index in range(pairs)
    ]
    schedule = Schedule(
        slots=tuple(ScheduledPair(key=pair.key, first=Side.BASELINE) for pair in observed)
    )
    # Keys, trees and the schedule are this function's own; everything else is as it will be.
    neutral = terms.model_copy(
        update={
            "accepted_tree": None,
            "schedule_digest": None,
            "train_keys": (),
            "spent_keys": (),
        }
    )
    return judge(progress(schedule, observed).comparison, gate=gate, terms=neutral)


def _solved(index: int, *, tasks: int, fixed: bool) -> PairObservation:
    key = PairKey(env_id="best-case", task_id=f"task-{index % max(tasks, 1)}", seed=index)
    return PairObservation(
        baseline=ArmObservation(
            key=key,
            status=PairStatus.FAIL if fixed else PairStatus.SUCCESS,
            objective_success=not fixed,
            fingerprint=Fingerprint(tree="baseline"),
        ),
        candidate=ArmObservation(
            key=key,
            status=PairStatus.SUCCESS,
            objective_success=True,
            fingerprint=Fingerprint(tree="candidate"),
        ),
    )
