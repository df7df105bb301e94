"""Which episodes each comparison of a lineage gets."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from openeta_exp.domain.gate import (
    AnytimeGate,
    FixedGate,
    Gate,
    NoRegressionGate,
    SequentialGate,
)
from openeta_exp.domain.identity import EpisodeId
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
    """The canary's episodes under a repeat index of their own, so that both arms are fresh.

    Args:
        turn: Which canary, from 1. No two share a repeat of an episode.
    """
    episodes = plan.canary.episodes
    repeats = 1 + max(spec.repeat for spec in episodes)
    specs = tuple(
        spec.model_copy(update={"repeat": spec.repeat + turn * repeats}) for spec in episodes
    )
    schedule = interleave([pair_key(spec) for spec in specs], salt=f"{plan.experiment_id}-{turn}")
    return Draw(schedule=schedule, specs=specs, exhausted=False)


def draw_train_side(plan: LineagePlan) -> Draw:
    """Train episodes under repeat indices of their own, for pairs of an agent with itself.

    Rows that are the same episode again, or differ in their limits only, count it on.
    """
    episodes = plan.train.episodes
    first = 10_000  # Beyond every repeat a manifest or a canary uses.
    used: Counter[_Unit] = Counter()
    specs: list[EpisodeSpec] = []
    for place in range(plan.flakiness_pairs):
        spec = episodes[place % len(episodes)]
        unit = _unit(spec)
        name = EpisodeId(f"{spec.episode_id}-aa{place}")
        specs.append(spec.model_copy(update={"episode_id": name, "repeat": first + used[unit]}))
        used[unit] += 1
    schedule = interleave([pair_key(spec) for spec in specs], salt=f"{plan.experiment_id}-aa")
    return Draw(schedule=schedule, specs=tuple(specs), exhausted=False)


def draw_held_out(plan: LineagePlan, *, turn: int) -> Draw:
    """Fresh episodes for a candidate's comparison: a share of every task's pool, with all repeats
    of each.

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
    """Fresh episodes for the last comparison: of what no candidate's comparison has a share in.

    Each once: its estimate takes pairs for independent.
    """
    pool, turn = HeldOutPool.of(plan), plan.comparisons
    needed = math.ceil(plan.confirmation_pairs / len(pool.shares))
    return _drawn(
        plan,
        turn=turn,
        needed=needed,
        parts={
            task: slice(turn * each, turn * each + needed + 1) for task, each in pool.shares.items()
        },
        repeats=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutPool:
    """How the comparisons of a lineage share the held-out episodes, task by task.

    An episode and its repeats go to one comparison together: what one has used is no longer fresh.

    Attributes:
        needed: Episodes of every task without which the gate cannot run to its end.
        shares: How many each comparison gets, by task; the last one of them is a reserve.
        sizes: How many there are, by task.
        repeats: The most rows of one episode.
    """

    gate: Gate
    comparisons: int
    needed: int
    shares: dict[str, int]
    sizes: dict[str, int]
    repeats: int

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
        by_task = _by_task(held_out)
        sizes = {task: len(episodes) for task, episodes in by_task.items()}
        needed = math.ceil(pairs_wanted(gate) / len(sizes))
        turns = comparisons + confirms
        return cls(
            gate=gate,
            comparisons=comparisons,
            needed=needed,
            # A pool too small for everybody is divided evenly rather than given to the first.
            shares={task: min(needed + 1, max(1, size // turns)) for task, size in sizes.items()},
            sizes=sizes,
            repeats=max(len(rows) for episodes in by_task.values() for rows in episodes),
        )

    @property
    def pairs(self) -> int:
        """What the last comparison of a candidate can use, which has the least; repeats say
        nothing new to a gate with an error rate."""
        drawn = sum(self._in_last_turn())
        # Without looks on the way, everything that was drawn is run, and all of it counts.
        if isinstance(self.gate, NoRegressionGate):
            return self.repeats * drawn
        return min(drawn, pairs_wanted(self.gate))

    @property
    def runs(self) -> int:
        """Pairs that it runs at most, repeats included."""
        drawn = self.repeats * sum(self._in_last_turn())
        whole = isinstance(self.gate, NoRegressionGate)
        return drawn if whole else min(drawn, pairs_wanted(self.gate))

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


_Unit = tuple[str, str, str, int]


def _unit(spec: EpisodeSpec) -> _Unit:
    """What repeats of an episode have in common; see `PairKey.unit`."""
    return spec.env_id, spec.task, digest(spec.scenario) if spec.scenario else "", spec.seed


def _by_task(manifest: Manifest) -> dict[str, list[list[EpisodeSpec]]]:
    """Episodes by task, each as its repeats."""
    episodes: dict[_Unit, list[EpisodeSpec]] = {}
    for spec in manifest.episodes:
        episodes.setdefault(_unit(spec), []).append(spec)
    by_task: dict[str, list[list[EpisodeSpec]]] = {}
    for (env_id, task, *_), rows in episodes.items():
        by_task.setdefault(f"{env_id}: {task}", []).append(rows)
    return by_task


def _drawn(
    plan: LineagePlan,
    *,
    turn: int,
    needed: int,
    parts: Mapping[str, slice],
    repeats: int | None = None,
) -> Draw:
    """
    Args:
        parts: Which places of every task's pool, in an order that only the experiment decides.
        repeats: The most rows of an episode that are taken; None takes all.
    """
    secret = digest(["held-out", plan.experiment_id])
    main: list[EpisodeSpec] = []
    reserves: list[EpisodeSpec] = []
    drawn = 0
    for task, episodes in _by_task(plan.held_out).items():
        places = range(len(episodes))
        shuffled = pool_share(places, generation=0, per_generation=len(episodes), secret=secret)
        share = [episodes[place][:repeats] for place in shuffled[parts[task]]]
        drawn += len(share[:needed])
        main += itertools.chain.from_iterable(share[:needed])
        reserves += itertools.chain.from_iterable(share[needed:])
    schedule = interleave(
        [pair_key(spec) for spec in main],
        salt=f"{secret}-{turn}",
        reserves=[pair_key(spec) for spec in reserves],
    )
    return Draw(schedule=schedule, specs=(*main, *reserves), exhausted=drawn < needed * len(parts))
