"""A ledger says, pair by pair, what the schedule says of all pairs at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.comparison import progress
from openeta_exp.domain.pair import (
    ArmObservation,
    Fingerprint,
    PairKey,
    PairObservation,
    PairStatus,
)
from openeta_exp.domain.schedule import Schedule, interleave
from openeta_exp.engine.pair_ledger import PairLedger
from openeta_exp.errors import ManifestError


def key(task: int, seed: int) -> PairKey:
    return PairKey(env_id="env", task_id=f"task-{task}", seed=seed)


def observed(of: PairKey, *, broke: bool) -> PairObservation:
    baseline = ArmObservation(
        key=of, status=PairStatus.FAIL, fingerprint=Fingerprint(tree="baseline")
    )
    if not broke:
        return PairObservation(baseline=baseline, candidate=baseline)
    candidate = ArmObservation(
        key=of,
        status=PairStatus.INFRASTRUCTURE,
        failure_class="simulator",
        fingerprint=Fingerprint(tree="candidate"),
    )
    return PairObservation(baseline=baseline, candidate=candidate)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    tasks = draw(st.integers(1, 3))
    slots = [key(task, seed) for task in range(tasks) for seed in range(draw(st.integers(1, 5)))]
    reserves = [
        key(task, 100 + seed) for task in range(tasks) for seed in range(draw(st.integers(0, 3)))
    ]
    return interleave(slots, salt="test", reserves=reserves)


@given(schedules(), st.data())
def test_a_ledger_agrees_with_the_schedule_whatever_ends_first(
    schedule: Schedule, data: st.DataObject
) -> None:
    ledger = PairLedger(schedule)
    done: list[PairObservation] = []
    running: list[PairKey] = []
    while True:
        for _ in range(data.draw(st.integers(1, 3))):
            due = ledger.next()
            expected = (
                pair for pair in progress(schedule, done).missing if pair.key not in running
            )
            assert due == next(expected, None)
            if due is not None:
                ledger.begin(due.key)
                running.append(due.key)
        if not running:
            break
        ended = running.pop(data.draw(st.integers(0, len(running) - 1)))
        done.append(observed(ended, broke=data.draw(st.booleans())))
        before = ledger.comparison().observations
        grown = ledger.add(done[-1])
        after, whole = ledger.comparison(), progress(schedule, done).comparison
        assert (*before, *grown) == after.observations == whole.observations
        assert {pair.key for pair in after.overrun} == {pair.key for pair in whole.overrun}
        assert ledger.valid_pairs == len(whole.pairs)


def test_what_was_not_scheduled_or_came_before_is_refused() -> None:
    ledger = PairLedger(interleave([key(0, 0)], salt="test"))
    ledger.add(observed(key(0, 0), broke=False))

    with pytest.raises(ManifestError, match="observed twice"):
        ledger.add(observed(key(0, 0), broke=False))
    with pytest.raises(ManifestError, match="not scheduled"):
        ledger.add(observed(key(0, 1), broke=False))
