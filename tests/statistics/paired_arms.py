"""Comparisons for tests, built from the production types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from openeta_exp.domain.comparison import PairedComparison, progress
from openeta_exp.domain.pair import (
    ArmObservation,
    Cost,
    Fingerprint,
    PairKey,
    PairObservation,
    PairStatus,
    Side,
)
from openeta_exp.domain.schedule import Schedule, ScheduledPair

BASELINE_TREE = Fingerprint(tree="tree-0", pins={"model": "m-1", "simulator": "s-1"})
CANDIDATE_TREE = BASELINE_TREE.model_copy(update={"tree": "tree-1"})
TASKS = 4


def key(index: int, *, task: str | None = None, rep: int = 0) -> PairKey:
    return PairKey(env_id="table", task_id=task or f"task-{index % TASKS}", seed=index, rep=rep)


def won(at: PairKey, *, side: Side = Side.CANDIDATE, **changes: object) -> ArmObservation:
    return _arm(at, side, changes, status=PairStatus.SUCCESS, objective_success=True)


def lost(at: PairKey, *, side: Side = Side.CANDIDATE, **changes: object) -> ArmObservation:
    return _arm(at, side, changes, status=PairStatus.FAIL)


def broke(at: PairKey, *, side: Side = Side.CANDIDATE, **changes: object) -> ArmObservation:
    return _arm(
        at,
        side,
        changes,
        status=PairStatus.INFRASTRUCTURE,
        failure_class="simulator_mcp_call_failed",
    )


def at_reset(at: PairKey, *, side: Side = Side.CANDIDATE, **changes: object) -> ArmObservation:
    """Nothing was left to solve."""
    return _arm(at, side, changes, status=PairStatus.SOLVED_AT_RESET)


def _arm(
    at: PairKey, side: Side, changes: Mapping[str, object], **fields: object
) -> ArmObservation:
    tree = BASELINE_TREE if side is Side.BASELINE else CANDIDATE_TREE
    known: dict[str, object] = {
        "key": at,
        "fingerprint": tree,
        "cost": Cost(tokens_in=900, tokens_out=100, tool_calls=10, wall_s=5.0),
    }
    return ArmObservation.model_validate({**known, **fields, **changes})


ENDINGS = {"w": (lost, won), "l": (won, lost), "b": (won, won), "n": (lost, lost)} | {
    "C": (won, broke),
    "c": (lost, broke),
    "B": (broke, won),
    "X": (broke, broke),
    "R": (at_reset, at_reset),
}
"""A letter a pair: win, loss, both, neither; crashes of candidate, baseline and both; solved at
reset."""


def observed(story: str, *, start: int = 0, tasks: int = TASKS) -> tuple[PairObservation, ...]:
    """One pair a letter of `ENDINGS`, tasks in turn."""
    pairs = []
    for index, letter in enumerate(story, start=start):
        baseline, candidate = ENDINGS[letter]
        at = key(index, task=f"task-{index % tasks}")
        pairs.append(
            PairObservation(
                baseline=baseline(at, side=Side.BASELINE),
                candidate=candidate(at, side=Side.CANDIDATE),
            )
        )
    return tuple(pairs)


def in_order(keys: Iterable[PairKey], *, reserves: Iterable[PairKey] = ()) -> Schedule:
    """A schedule that keeps the order given."""
    return Schedule(
        slots=tuple(ScheduledPair(key=each, first=Side.BASELINE) for each in keys),
        reserves=tuple(ScheduledPair(key=each, first=Side.BASELINE) for each in reserves),
    )


def compared(pairs: Sequence[PairObservation]) -> PairedComparison:
    """The comparison of exactly these pairs, in the order given."""
    return progress(in_order(pair.key for pair in pairs), pairs).comparison


def story(letters: str, *, tasks: int = TASKS) -> PairedComparison:
    return compared(observed(letters, tasks=tasks))


def with_candidate(pair: PairObservation, **changes: object) -> PairObservation:
    """The pair with something else about its candidate."""
    fields = pair.candidate.model_dump() | changes
    return pair.model_copy(update={"candidate": ArmObservation.model_validate(fields)})
