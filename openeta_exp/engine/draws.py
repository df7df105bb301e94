"""Which episodes each comparison of a lineage gets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from openeta_exp.domain.gate import (
    AnytimeGate,
    FixedGate,
    Gate,
    NoRegressionGate,
    SequentialGate,
)
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.record import digest
from openeta_exp.domain.schedule import Schedule, interleave, pool_share
from openeta_exp.engine.lineage_plan import LineagePlan
from openeta_exp.engine.observe_arm import pair_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The episodes of one comparison.

    Attributes:
        exhausted: The pool had fewer fresh episodes than the gate asks for.
    """

    schedule: Schedule
    specs: tuple[EpisodeSpec, ...]
    exhausted: bool


def pairs_wanted(gate: Gate) -> int:
    """Pairs that must be there for a gate to run to its end."""
    match gate:
        case SequentialGate():
            return gate.largest_n_max
        case FixedGate(pairs=pairs):
            return pairs
        case AnytimeGate(n_max=n_max):
            return n_max or 60
        case NoRegressionGate(strategy=strategy):
            return strategy.min_held_out_attempts if strategy is not None else 20


def draw_canary(plan: LineagePlan, *, turn: int) -> Draw:
    """The canary's episodes under a repeat index of their own, so that both arms are fresh."""
    specs = tuple(
        spec.model_copy(update={"repeat": spec.repeat + turn}) for spec in plan.canary.episodes
    )
    schedule = interleave([pair_key(spec) for spec in specs], salt=f"{plan.experiment_id}-{turn}")
    return Draw(schedule=schedule, specs=specs, exhausted=False)


def draw_train_side(plan: LineagePlan) -> Draw:
    """Train episodes under repeat indices of their own, for pairs of an agent with itself."""
    episodes = plan.train.episodes
    first = 10_000  # Beyond every repeat a manifest or a canary uses.
    specs = tuple(
        episodes[place % len(episodes)].model_copy(
            update={
                "episode_id": f"{episodes[place % len(episodes)].episode_id}-aa{place}",
                "repeat": first + place // len(episodes),
            }
        )
        for place in range(plan.flakiness_pairs)
    )
    schedule = interleave([pair_key(spec) for spec in specs], salt=f"{plan.experiment_id}-aa")
    return Draw(schedule=schedule, specs=specs, exhausted=False)


def draw_held_out(plan: LineagePlan, *, turn: int) -> Draw:
    """Fresh episodes for a candidate's comparison: a share of every task's pool.

    Args:
        turn: Which comparison, from 0. Shares of different turns are disjoint.
    """
    pool = HeldOutPool.of(plan)
    return _drawn(
        plan,
        turn=turn,
        needed=pool.needed,
        parts={task: slice(turn * each, (turn + 1) * each) for task, each in pool.shares.items()},
    )


def draw_confirmation(plan: LineagePlan) -> Draw:
    """Fresh episodes for the last comparison: of what no candidate's comparison has a share in."""
    pool, turn = HeldOutPool.of(plan), plan.comparisons
    needed = math.ceil(plan.confirmation_pairs / len(pool.shares))
    return _drawn(
        plan,
        turn=turn,
        needed=needed,
        parts={
            task: slice(turn * each, turn * each + needed + 1) for task, each in pool.shares.items()
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutPool:
    """How the comparisons of a lineage share the held-out episodes, task by task.

    Attributes:
        needed: Episodes of every task without which the gate cannot run to its end.
        shares: How many each comparison gets, by task; the last one of them is a reserve.
        sizes: How many there are, by task.
    """

    gate: Gate
    comparisons: int
    needed: int
    shares: dict[str, int]
    sizes: dict[str, int]

    @classmethod
    def of(cls, plan: LineagePlan) -> HeldOutPool:
        return cls.shared(
            plan.held_out,
            gate=plan.gate,
            comparisons=plan.comparisons,
            confirms=plan.confirmation_pairs > 0,
        )

    @classmethod
    def shared(
        cls, held_out: Manifest, *, gate: Gate, comparisons: int, confirms: bool
    ) -> HeldOutPool:
        """
        Args:
            confirms: Whether something has to be left for a confirmation.
        """
        sizes = {task: len(specs) for task, specs in _by_task(held_out).items()}
        needed = math.ceil(pairs_wanted(gate) / len(sizes))
        turns = comparisons + confirms
        return cls(
            gate=gate,
            comparisons=comparisons,
            needed=needed,
            # A pool too small for everybody is divided evenly rather than given to the first.
            shares={task: min(needed + 1, max(1, size // turns)) for task, size in sizes.items()},
            sizes=sizes,
        )

    @property
    def pairs(self) -> int:
        """What the last comparison of a candidate can use, which has the least."""
        drawn = sum(self._in_last_turn())
        # Without looks on the way, everything that was drawn is run.
        return (
            drawn
            if isinstance(self.gate, NoRegressionGate)
            else min(drawn, pairs_wanted(self.gate))
        )

    @property
    def tasks(self) -> int:
        """With an episode in that comparison."""
        return sum(each > 0 for each in self._in_last_turn())

    def _in_last_turn(self) -> list[int]:
        before = self.comparisons - 1
        return [
            max(0, min(self.needed, share, self.sizes[task] - before * share))
            for task, share in self.shares.items()
        ]


def _by_task(manifest: Manifest) -> dict[str, list[EpisodeSpec]]:
    by_task: dict[str, list[EpisodeSpec]] = {}
    for spec in manifest.episodes:
        by_task.setdefault(f"{spec.env_id}: {spec.task}", []).append(spec)
    return by_task


def _drawn(plan: LineagePlan, *, turn: int, needed: int, parts: Mapping[str, slice]) -> Draw:
    """
    Args:
        parts: Which places of every task's pool, in an order that only the experiment decides.
    """
    secret = digest(["held-out", plan.experiment_id])
    main: list[EpisodeSpec] = []
    reserves: list[EpisodeSpec] = []
    for task, specs in _by_task(plan.held_out).items():
        places = range(len(specs))
        shuffled = pool_share(places, generation=0, per_generation=len(specs), secret=secret)
        share = [specs[place] for place in shuffled[parts[task]]]
        main += share[:needed]
        reserves += share[needed:]
    schedule = interleave(
        [pair_key(spec) for spec in main],
        salt=f"{secret}-{turn}",
        reserves=[pair_key(spec) for spec in reserves],
    )
    return Draw(
        schedule=schedule, specs=(*main, *reserves), exhausted=len(main) < needed * len(parts)
    )
