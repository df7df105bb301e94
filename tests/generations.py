"""Lineages in memory: the engine as it is, in a world where a grasp strategy's `close_steps`
decides how often an episode is solved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.artifact import Artifact, ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import Candidate, Proposal, Review, ReviewDecision
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import BatchStarted, Event
from openeta_exp.domain.gate import Gate, GateTiers, SequentialGate, Tier
from openeta_exp.domain.generation import ExperimentResult
from openeta_exp.domain.grasp_strategy import (
    GraspStrategy,
    MotionPolicy,
    parse_strategy,
    render_strategy,
)
from openeta_exp.domain.identity import EpisodeId, SessionId
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.money import Prices
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.engine.batch import Observers, RunEpisode
from openeta_exp.engine.generation import GenerationEngine, Staff
from openeta_exp.engine.lane import Workshop
from openeta_exp.engine.lineage import Lineage
from openeta_exp.engine.lineage_plan import LineagePlan
from openeta_exp.engine.progress import NoProgress
from openeta_exp.ports.author import Workbench
from openeta_exp.ports.registry import Registry
from openeta_exp.ports.session_log import SessionLogs
from openeta_exp.ports.store import Journal
from tests import batches
from tests.manual_clock import ManualClock

GATE = SequentialGate(n_min=8, n_max=24, min_tasks=2)
TASKS = 3


def strategy(close_steps: int, *, revision: int = 1, name: str | None = None) -> Artifact:
    """A revision that solves `close_steps` of twenty episodes."""
    written = GraspStrategy(
        strategy_id=name or f"grip.r{revision}.{close_steps}",
        strategy_family_id="grip",
        revision=revision,
        description=f"Close for {close_steps} steps.",
        motion_policy=MotionPolicy(close_steps=close_steps),
    )
    return Artifact(
        kind=ArtifactKind.GRASP_STRATEGY, name=written.strategy_id, text=render_strategy(written)
    )


def tree_of(*artifacts: Artifact) -> ArtifactTree:
    return ArtifactTree(artifacts=artifacts)


def episodes(count: int, *, first_seed: int) -> Manifest:
    """Seeds from `first_seed` on, tasks in turn."""
    return Manifest(
        episodes=tuple(
            EpisodeSpec(
                episode_id=EpisodeId(f"pick-{seed % TASKS}-{seed}"),
                env_id=f"openeta/tabletop_pick_{seed % TASKS}-v0",
                task=f"pick up object {seed % TASKS}",
                seed=seed,
            )
            for seed in range(first_seed, first_seed + count)
        )
    )


def plan(
    *,
    generations: int = 2,
    tree: ArtifactTree | None = None,
    tier: Tier = Tier.PUBLISH,
    gate: Gate = GATE,
    held_out: int = 600,
    train: int = 6,
    experiment_id: str = "exp",
) -> LineagePlan:
    trained = episodes(train, first_seed=0)
    return LineagePlan(
        experiment_id=experiment_id,
        generations=generations,
        train=trained,
        canary=episodes(4, first_seed=100_000),
        held_out=episodes(held_out, first_seed=200_000),
        tree=tree_of(strategy(6)) if tree is None else tree,
        behaviour={"planner": {"model": "scripted-planner"}},
        design={},
        config={
            "provider": {"kind": "scripted", "model": "scripted-planner"},
            "lineage": {"generations": generations, "confirmation_pairs": 8},
        },
        scripted=True,
        concurrency=2,
        provenance=batches.started(trained).provenance,
        gates=GateTiers(local=gate, publish=gate),
        tier=tier,
        fdr=0.2,
        confirmation_pairs=8,
        flakiness_pairs=0,
        prices=Prices(input_usd=1.0, output_usd=4.0),
    )


def solves(tree: ArtifactTree, spec: EpisodeSpec) -> bool:
    """Whether an episode is within a tree's reach: the same for every run of it."""
    (only,) = tree.grasp_strategies()
    drawn = int(hashlib.sha256(f"{spec.env_id}#{spec.seed}".encode()).hexdigest(), 16) % 20
    return drawn < only.motion_policy.close_steps


def run_everything(batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
    async def run(spec: EpisodeSpec) -> EpisodeOutcome:
        return (batches.won if solves(tree, spec) else batches.lost)(spec, under=batch.arm)

    return run


@dataclass
class Proposals:
    """An author that proposes these numbers of steps, one a generation."""

    close_steps: Sequence[int]
    name: str = "by-the-book"

    async def propose(self, evidence: TrainingEvidence, *, bench: Workbench) -> Proposal:
        (in_use,) = evidence.tree.of(ArtifactKind.GRASP_STRATEGY)
        revision = parse_strategy(in_use.text, source=in_use.name).revision + 1
        steps = self.close_steps[evidence.generation]
        candidate = Candidate(
            artifact=strategy(steps, revision=revision),
            supersedes=in_use.name,
            parent_digest=evidence.tree.content_digest,
            origin=f"author:{self.name}",
            rationale=f"close for {steps} steps",
            supporting_episode_ids=tuple(
                each.episode_id for each in evidence.episodes if not each.success
            ),
        )
        return Proposal(candidate=candidate, reason="proposed")


class Approving:
    async def review(self, candidate: Candidate, *, evidence: TrainingEvidence) -> Review:
        return Review(decision=ReviewDecision.APPROVE, reason="sound", reviewer="approving")


class NoFolder:
    """An experiment's folder that keeps nothing but its journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def begin_generation(self, record: GenerationRecord, tree: ArtifactTree) -> None: ...

    def sessions(self, *, generation: int, phase: str) -> SessionLogs:
        raise AssertionError("no episode of this world keeps a session")

    def session_tree(
        self, session_id: SessionId, *, generation: int, phase: str
    ) -> ArtifactTree | None:
        return None

    def write_generation_result(self, text: str, *, generation: int) -> Path:
        return Path("result.json")

    def write_result(self, text: str, *, generation: int, phase: str) -> Path:
        return Path("result.json")

    def close(self) -> None: ...


def lineage_engine(
    of: LineagePlan,
    journal: Journal,
    *,
    close_steps: Sequence[int],
    registry: Registry | None = None,
    listeners: tuple[Callable[[Event], None], ...] = (),
) -> GenerationEngine:
    """An engine whose strategy author proposes `close_steps`, generation by generation."""
    observers = Observers(
        journal=journal,
        tracker=NullTracker(),
        progress=NoProgress(),
        clock=ManualClock(),
        listeners=listeners,
    )
    return GenerationEngine(
        workshop=Workshop(
            plan=of,
            lineage=Lineage(observers),
            observers=observers,
            episodes=run_everything,
            registry=registry,
        ),
        staff=Staff(
            authors={ArtifactKind.GRASP_STRATEGY: Proposals(close_steps)}, reviewer=Approving()
        ),
        store=NoFolder(journal),
    )


async def lineage(
    *close_steps: int, of: LineagePlan | None = None, registry: Registry | None = None
) -> tuple[ExperimentResult, list[Event]]:
    """A whole lineage and the facts its journal keeps."""
    journal = MemoryJournal()
    planned = of or plan(generations=len(close_steps))
    engine = lineage_engine(planned, journal, close_steps=close_steps, registry=registry)
    result = await engine.run()
    return result, [event for _, event in journal.events()]
