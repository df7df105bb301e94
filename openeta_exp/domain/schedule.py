"""In which order pairs are run and counted, fixed before the first one runs."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Sequence
from typing import Self

from pydantic import model_validator

from openeta_exp.domain.identity import Digest
from openeta_exp.domain.pair import PairKey, Side
from openeta_exp.domain.record import Record, digest
from openeta_exp.errors import ManifestError


class ScheduledPair(Record):
    """A pair to run: both arms back to back, `first` first."""

    key: PairKey
    first: Side


class Schedule(Record):
    """The order in which pairs count. Its digest is recorded before anything is run."""

    slots: tuple[ScheduledPair, ...]
    reserves: tuple[ScheduledPair, ...] = ()
    """Replacements for pairs without a verdict, used in order within a task."""

    @model_validator(mode="after")
    def _keys_are_unique(self) -> Self:
        counts = Counter(pair.key for pair in (*self.slots, *self.reserves))
        doubled = [str(key) for key, count in counts.items() if count > 1]
        if doubled:
            raise ValueError(f"a key can be scheduled once; more often: {doubled}")
        return self

    @property
    def content_digest(self) -> Digest:
        return Digest(digest(self))


def interleave(keys: Sequence[PairKey], *, salt: str, reserves: Sequence[PairKey] = ()) -> Schedule:
    """Balanced blocks with one key per task, tasks shuffled within each block by hash.

    Running one task after another would inflate the error of a sequential test several times
    over. Repeats come last: new keys say more.

    Raises:
        ManifestError: If a key is given twice.
    """
    doubled = [str(key) for key, count in Counter([*keys, *reserves]).items() if count > 1]
    if doubled:
        raise ManifestError(f"schedule: these keys are given more than once: {doubled}")

    def draw(*parts: object) -> str:
        return hashlib.sha256("\0".join([salt, *map(str, parts)]).encode("utf-8")).hexdigest()

    def ordered(some: Sequence[PairKey]) -> list[PairKey]:
        return sorted(some, key=lambda key: (key.rep, draw("key", key)))

    def scheduled(key: PairKey) -> ScheduledPair:
        heads = int(draw("order", key)[:8], 16) % 2 == 0
        return ScheduledPair(key=key, first=Side.BASELINE if heads else Side.CANDIDATE)

    queues: dict[str, deque[PairKey]] = {}
    for key in ordered(keys):
        queues.setdefault(key.task_id, deque()).append(key)
    slots: list[ScheduledPair] = []
    block = 0
    while queues:
        for task in sorted(queues, key=lambda task: draw("task", block, task)):
            slots.append(scheduled(queues[task].popleft()))
        queues = {task: queue for task, queue in queues.items() if queue}
        block += 1
    return Schedule(slots=tuple(slots), reserves=tuple(scheduled(key) for key in ordered(reserves)))


def fresh_seed(secret: str, *, generation: int, task_id: str, index: int) -> int:
    """A held-out seed, 0 to 2**31 - 1, that no earlier generation and no author has seen."""
    name = "\0".join([secret, str(generation), task_id, str(index)])
    return int(hashlib.sha256(name.encode("utf-8")).hexdigest()[:8], 16) >> 1


def pool_share(
    pool: Sequence[int], *, generation: int, per_generation: int, secret: str
) -> tuple[int, ...]:
    """A generation's own part of a fixed pool of seeds; shorter, or empty, once it runs out."""
    shuffled = sorted(
        pool, key=lambda seed: hashlib.sha256(f"{secret}\0{seed}".encode()).hexdigest()
    )
    start = generation * per_generation
    return tuple(shuffled[start : start + per_generation])
