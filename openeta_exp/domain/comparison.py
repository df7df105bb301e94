"""Two arms on the same episodes: paired first, then counted. Nothing is dropped in silence."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import Field

from openeta_exp.domain.identity import Digest
from openeta_exp.domain.pair import (
    ArmObservation,
    Cost,
    PairKey,
    PairObservation,
    PairOutcome,
    Side,
    total_cost,
)
from openeta_exp.domain.record import Record
from openeta_exp.domain.schedule import Schedule, ScheduledPair
from openeta_exp.errors import ManifestError


class PairedComparison(Record):
    """Pairs in schedule order: the longest prefix that is complete, and what ran ahead of it."""

    schedule_digest: Digest
    scheduled: int = Field(ge=0)
    """Pairs that the schedule asks for."""
    observations: tuple[PairObservation, ...] = ()
    """In schedule order; excluded pairs stand in front of their replacements."""
    overrun: tuple[PairObservation, ...] = ()
    """Ran, but not used: after the stop, or ahead of a pair that is still missing."""

    @property
    def pairs(self) -> tuple[PairObservation, ...]:
        """The valid ones."""
        return tuple(pair for pair in self.observations if pair.valid)

    @property
    def excluded(self) -> tuple[PairObservation, ...]:
        """Pairs without a verdict on at least one side; their arms say why."""
        return tuple(pair for pair in self.observations if not pair.valid)

    @property
    def broken(self) -> tuple[PairObservation, ...]:
        """Excluded pairs in which something broke: run again, they may have a verdict. What is
        solved at reset is solved there every time."""
        return tuple(pair for pair in self.excluded if not pair.solved_at_reset)

    def keys(self, outcome: PairOutcome) -> tuple[PairKey, ...]:
        return tuple(pair.key for pair in self.observations if pair.outcome is outcome)

    @property
    def improved(self) -> tuple[PairKey, ...]:
        return self.keys(PairOutcome.IMPROVED)

    @property
    def regressed(self) -> tuple[PairKey, ...]:
        return self.keys(PairOutcome.REGRESSED)

    @property
    def tied_success(self) -> tuple[PairKey, ...]:
        return self.keys(PairOutcome.TIED_SUCCESS)

    @property
    def tied_failure(self) -> tuple[PairKey, ...]:
        return self.keys(PairOutcome.TIED_FAILURE)

    @property
    def differences(self) -> tuple[int, ...]:
        return tuple(pair.difference for pair in self.pairs)

    def spent(self, side: Side) -> Cost:
        """Everything one arm consumed, whether it was used or not."""
        return total_cost(pair.arm(side).cost for pair in (*self.observations, *self.overrun))

    def first(self, pairs: int) -> PairedComparison:
        """The comparison as it stood after so many valid pairs; the rest becomes overrun."""
        used, end = 0, 0
        while used < pairs and end < len(self.observations):
            used += self.observations[end].valid
            end += 1
        return self.model_copy(
            update={
                "observations": self.observations[:end],
                "overrun": (*self.observations[end:], *self.overrun),
            }
        )


def pair(
    baseline: Sequence[ArmObservation], candidate: Sequence[ArmObservation]
) -> tuple[PairObservation, ...]:
    """Pair two arms by key, before anything is filtered out.

    Pairing first keeps exclusion symmetric: what broke in one arm removes the pair, so it can
    neither look like a regression nor hide one.

    Raises:
        ManifestError: If the arms did not run the same keys, once each. Lists every one.
    """
    problems: list[str] = []
    keys = {side: [seen.key for seen in arm] for side, arm in _sides(baseline, candidate)}
    for side, seen in keys.items():
        doubled = [str(key) for key, count in Counter(seen).items() if count > 1]
        if doubled:
            problems.append(f"{side}: ran more than once: {doubled}")
        others = set(keys[Side.CANDIDATE if side is Side.BASELINE else Side.BASELINE])
        lonely = [str(key) for key in seen if key not in others]
        if lonely:
            problems.append(f"{side}: the other arm did not run {lonely}")
    if problems:
        raise ManifestError(problems)
    partners = {observation.key: observation for observation in candidate}
    return tuple(
        PairObservation(baseline=observation, candidate=partners[observation.key])
        for observation in baseline
    )


def _sides(
    baseline: Sequence[ArmObservation], candidate: Sequence[ArmObservation]
) -> tuple[tuple[Side, Sequence[ArmObservation]], ...]:
    return (Side.BASELINE, baseline), (Side.CANDIDATE, candidate)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a schedule has come.

    Attributes:
        comparison: The longest complete prefix; the only thing a look may use.
        missing: Pairs still to be run, in the order in which they are needed.
    """

    comparison: PairedComparison
    missing: tuple[ScheduledPair, ...]

    @property
    def complete(self) -> bool:
        return not self.missing


def progress(schedule: Schedule, observed: Iterable[PairObservation]) -> Progress:
    """Put finished pairs, in any order, into schedule order.

    Fast episodes tend to be successes, so looks in the order of completion would be biased. A pair
    that broke, or was solved at reset, is followed by the next unused reserve of its task, if
    there is one.

    Raises:
        ManifestError: If a pair was not scheduled, or was observed twice.
    """
    waiting = _by_key(schedule, observed)
    reserves: dict[str, deque[ScheduledPair]] = {}
    for reserve in schedule.reserves:
        reserves.setdefault(reserve.key.task_id, deque()).append(reserve)
    prefix: list[PairObservation] = []
    overrun: list[PairObservation] = []
    missing: list[ScheduledPair] = []
    for slot in schedule.slots:
        wanted: ScheduledPair | None = slot
        while wanted is not None:
            seen = waiting.pop(wanted.key, None)
            if seen is None:
                missing.append(wanted)
                break
            (overrun if missing else prefix).append(seen)
            spare = reserves.get(wanted.key.task_id)
            wanted = spare.popleft() if spare and not seen.valid else None
    comparison = PairedComparison(
        schedule_digest=schedule.content_digest,
        scheduled=len(schedule.slots),
        observations=tuple(prefix),
        overrun=(*overrun, *waiting.values()),
    )
    return Progress(comparison, tuple(missing))


def _by_key(
    schedule: Schedule, observed: Iterable[PairObservation]
) -> dict[PairKey, PairObservation]:
    scheduled = {pair.key for pair in (*schedule.slots, *schedule.reserves)}
    found: dict[PairKey, PairObservation] = {}
    problems: list[str] = []
    for observation in observed:
        if observation.key not in scheduled:
            problems.append(f"{observation.key} was not scheduled")
        if observation.key in found:
            problems.append(f"{observation.key} was observed twice")
        found[observation.key] = observation
    if problems:
        raise ManifestError(problems)
    return found


def compare(
    baseline: Sequence[ArmObservation],
    candidate: Sequence[ArmObservation],
    *,
    schedule: Schedule,
) -> PairedComparison:
    """Pair two finished arms in schedule order.

    Raises:
        ManifestError: If the arms did not run the same scheduled keys, once each.
    """
    return progress(schedule, pair(baseline, candidate)).comparison


def incomparable_fields(comparison: PairedComparison) -> tuple[str, ...]:
    """Names of pins that are not the same in all results of both arms, plus `baseline_tree` and
    `candidate_tree` where an arm changed under way."""
    results = {
        side: [pair.arm(side) for pair in comparison.observations if not pair.arm(side).broke]
        for side in Side
    }
    pins = [seen.fingerprint.pins for arm in results.values() for seen in arm]
    names = sorted({name for pin in pins for name in pin})
    fields = [name for name in names if len({pin.get(name) for pin in pins}) > 1]
    fields += [
        f"{side}_tree"
        for side, arm in results.items()
        if len({seen.fingerprint.tree for seen in arm}) > 1
    ]
    return tuple(fields)
