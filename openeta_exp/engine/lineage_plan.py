"""A lineage of generations as it was asked for, and the batches it consists of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.event import Arm, BatchStarted, Provenance
from openeta_exp.domain.gate import (
    AnytimeGate,
    FixedGate,
    Gate,
    GateTiers,
    NoRegressionGate,
    SequentialGate,
    Tier,
)
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.money import Prices
from openeta_exp.domain.record import digest
from openeta_exp.domain.schedule import Schedule, interleave, pool_share
from openeta_exp.engine.observe_arm import pair_key

LANES = (ArtifactKind.GRASP_STRATEGY, ArtifactKind.SKILL)
"""In this order, each on the tree the former left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineagePlan:
    """Everything about a lineage that is fixed before its first episode.

    Attributes:
        design: What decides how candidates are judged; the same experiment keeps to it.
        held_out: The pool; each comparison gets a part of it that no other one has seen.
        flakiness_pairs: Pairs of the first tree with itself, on train-side keys, before anything
            else; 0 for none.
        confirmation_pairs: Fresh pairs of last against first tree at the end; 0 for none.
    """

    experiment_id: str
    generations: int
    train: Manifest
    canary: Manifest
    held_out: Manifest
    tree: ArtifactTree
    behaviour: JsonObject
    design: JsonObject
    config: JsonObject
    scripted: bool
    concurrency: int
    provenance: Provenance
    gates: GateTiers
    tier: Tier
    fdr: float
    confirmation_pairs: int
    flakiness_pairs: int
    prices: Prices

    @property
    def gate(self) -> Gate:
        return self.gates.of(self.tier)

    @property
    def comparisons(self) -> int:
        """Held-out tests that are planned: the ledger's horizon."""
        return self.generations * len(LANES)

    @property
    def pins(self) -> dict[str, str]:
        """What must be the same in both arms besides settings and simulator."""
        provenance = self.provenance
        return {
            "openeta_exp": provenance.openeta_exp_version,
            "prompt": provenance.prompt_digest,
            "packages": digest(dict[str, JsonValue](provenance.packages)),
        }

    def arm(self, label: str, tree: ArtifactTree, *, twin: bool = False) -> Arm:
        """An arm; a twin behaves the same and is told apart from it all the same."""
        return Arm(
            label=label,
            tree_digest=tree.content_digest,
            settings={**self.behaviour, "twin": True} if twin else self.behaviour,
            scripted=self.scripted,
        )

    def batch(
        self,
        phase: str,
        *,
        label: str,
        generation: int,
        tree: ArtifactTree,
        manifest: Manifest,
        at_s: float,
        twin: bool = False,
    ) -> BatchStarted:
        return BatchStarted(
            batch_id=self.batch_id(generation, phase),
            experiment_id=self.experiment_id,
            generation=generation,
            phase=phase,
            arm=self.arm(label, tree, twin=twin),
            manifest=manifest,
            concurrency=self.concurrency,
            config=self.config,
            provenance=self.provenance,
            at_s=at_s,
        )

    def batch_id(self, generation: int, phase: str) -> str:
        return f"{self.experiment_id}-g{generation:03d}-{phase}"

    def comparison_id(self, generation: int, lane: ArtifactKind, stage: str) -> str:
        """Sorts in the order in which comparisons are run."""
        return f"{self.experiment_id}-g{generation:03d}-{LANES.index(lane)}-{lane.value}-{stage}"


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


def draw_held_out(plan: LineagePlan, *, turn: int, pairs: int, turns: int) -> Draw:
    """Fresh episodes for one of `turns` comparisons: a share of every task's pool.

    Args:
        turn: Which comparison, from 0. Shares of different turns are disjoint.
    """
    secret = digest(["held-out", plan.experiment_id])
    by_task: dict[str, list[EpisodeSpec]] = {}
    for spec in plan.held_out.episodes:
        by_task.setdefault(f"{spec.env_id}: {spec.task}", []).append(spec)
    needed = math.ceil(pairs / len(by_task))
    main: list[EpisodeSpec] = []
    reserves: list[EpisodeSpec] = []
    for specs in by_task.values():
        share = _share(specs, turn=turn, turns=turns, size=needed + 1, secret=secret)
        main += share[:needed]
        reserves += share[needed:]
    schedule = interleave(
        [pair_key(spec) for spec in main],
        salt=f"{secret}-{turn}",
        reserves=[pair_key(spec) for spec in reserves],
    )
    return Draw(
        schedule=schedule, specs=(*main, *reserves), exhausted=len(main) < needed * len(by_task)
    )


def _share(
    specs: Sequence[EpisodeSpec], *, turn: int, turns: int, size: int, secret: str
) -> list[EpisodeSpec]:
    by_place = dict(enumerate(specs))
    # A pool too small for everybody is divided evenly rather than given to the first.
    fair = min(size, max(1, len(specs) // turns))
    chosen = pool_share(tuple(by_place), generation=turn, per_generation=fair, secret=secret)
    return [by_place[place] for place in chosen]
