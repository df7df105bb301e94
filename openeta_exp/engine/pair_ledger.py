"""Keeps the pairs of a running comparison in schedule order, whatever order they end in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.pair import PairKey, PairObservation
from openeta_exp.domain.schedule import Schedule, ScheduledPair
from openeta_exp.errors import ManifestError


class PairLedger:
    """What `domain.comparison.progress` says of a schedule, kept up to date pair by pair.

    Taking a pair and naming the next one cost the same however many have ended, as long as no
    pair ahead of a missing one breaks and needs a reserve.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._digest = schedule.content_digest
        self._slots = schedule.slots
        self._scheduled = {pair.key: pair for pair in (*schedule.slots, *schedule.reserves)}
        self._reserves: dict[str, list[ScheduledPair]] = {}
        for reserve in schedule.reserves:
            self._reserves.setdefault(reserve.key.task_id, []).append(reserve)
        self._ahead: dict[PairKey, PairObservation] = {}
        """Ended, and not part of the prefix."""
        self._broken_ahead = 0
        self._ended: set[PairKey] = set()
        self._begun: set[PairKey] = set()
        self._prefix: list[PairObservation] = []
        self._valid = 0
        self._drawn: Counter[str] = Counter()
        """Reserves that the prefix has used, by task."""
        self._slot = 0
        self._wanted = self._slots[0] if self._slots else None
        """What the prefix waits for, which is the slot's own pair or a reserve for it."""
        self._cursor = 0
        """Slots before it have begun."""

    @property
    def valid_pairs(self) -> int:
        """Of the prefix."""
        return self._valid

    def has(self, key: PairKey) -> bool:
        """Whether a pair has ended."""
        return key in self._ended

    def slot(self, key: PairKey) -> ScheduledPair:
        return self._scheduled[key]

    def begin(self, key: PairKey) -> None:
        """A pair is being run, and not to be handed out again."""
        self._begun.add(key)

    def add(self, observation: PairObservation) -> list[PairObservation]:
        """Take a finished pair; return those that the prefix has grown by.

        Raises:
            ManifestError: If it was not scheduled, or was observed before.
        """
        key = observation.key
        if key not in self._scheduled:
            raise ManifestError(f"{key} was not scheduled")
        if key in self._ended:
            raise ManifestError(f"{key} was observed twice")
        self._ended.add(key)
        self._begun.add(key)
        self._ahead[key] = observation
        self._broken_ahead += not observation.valid
        return list(self._advance())

    def _advance(self) -> Iterator[PairObservation]:
        while self._wanted is not None and self._wanted.key in self._ahead:
            seen = self._ahead.pop(self._wanted.key)
            self._prefix.append(seen)
            self._valid += seen.valid
            self._broken_ahead -= not seen.valid
            self._wanted = None if seen.valid else self._draw(self._wanted.key.task_id)
            if self._wanted is None:
                self._slot += 1
                if self._slot < len(self._slots):
                    self._wanted = self._slots[self._slot]
            yield seen

    def _draw(self, task_id: str) -> ScheduledPair | None:
        spare = self._reserves.get(task_id, [])
        at = self._drawn[task_id]
        if at >= len(spare):
            return None
        self._drawn[task_id] += 1
        return spare[at]

    def next(self) -> ScheduledPair | None:
        """The first pair that is needed and has not begun; None if there is none for now."""
        if self._wanted is not None and self._wanted.key not in self._begun:
            return self._wanted
        if self._reserves and self._broken_ahead:
            return next((pair for pair in self._missing() if pair.key not in self._begun), None)
        self._cursor = max(self._cursor, self._slot)
        while self._cursor < len(self._slots):
            slot = self._slots[self._cursor]
            if slot.key not in self._begun:
                return slot
            self._cursor += 1
        return None

    def _missing(self) -> Iterator[ScheduledPair]:
        """Everything still needed, with reserves for what broke ahead of the prefix."""
        drawn = self._drawn.copy()
        wanted = self._wanted
        for slot in self._slots[self._slot :]:
            wanted = slot if wanted is None else wanted
            while wanted is not None:
                seen = self._ahead.get(wanted.key)
                if seen is None:
                    yield wanted
                    break
                task_id = wanted.key.task_id
                spare = self._reserves.get(task_id, [])
                wanted = None
                if not seen.valid and drawn[task_id] < len(spare):
                    wanted = spare[drawn[task_id]]
                    drawn[task_id] += 1
            wanted = None

    def comparison(self, *, gaps: bool = False) -> PairedComparison:
        """The longest complete prefix, and what ran ahead of it.

        Args:
            gaps: Take what ran ahead for a part of it, in schedule order. Only for comparisons of
                which every pair is to be run, or the fast ones would be favoured.
        """
        ahead = self._ahead
        used = [*self._prefix]
        if gaps:
            used += [ahead[slot.key] for slot in self._slots[self._slot :] if slot.key in ahead]
        return PairedComparison(
            schedule_digest=self._digest,
            scheduled=len(self._slots),
            observations=tuple(used),
            overrun=() if gaps else tuple(ahead.values()),
        )
