"""`command=run`: one batch of one generation, from baseline to result file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.event import Arm, BatchStarted, Provenance
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.engine.batch import BatchRun, Observers, run_batch
from openeta_exp.engine.episode import EpisodeWorld, run_episode
from openeta_exp.engine.summary import BatchReport, report_batch
from openeta_exp.ports.experiment_store import ExperimentStore


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """One batch as it was asked for.

    Attributes:
        behaviour: Settings that influence what an episode does; with the tree, the arm's identity.
        config: The whole resolved configuration, without secrets.
    """

    experiment_id: str
    generation: int
    phase: str
    label: str
    manifest: Manifest
    tree: ArtifactTree
    behaviour: JsonObject
    config: JsonObject
    scripted: bool
    concurrency: int
    provenance: Provenance
    fresh: bool = False

    @property
    def arm(self) -> Arm:
        return Arm(
            label=self.label,
            tree_digest=self.tree.content_digest,
            settings=self.behaviour,
            scripted=self.scripted,
        )

    def started(self, *, at_s: float) -> BatchStarted:
        return BatchStarted(
            batch_id=f"{self.experiment_id}-g{self.generation:03d}-{self.phase}",
            experiment_id=self.experiment_id,
            generation=self.generation,
            phase=self.phase,
            arm=self.arm,
            manifest=self.manifest,
            concurrency=min(self.concurrency, len(self.manifest.episodes)),
            config=self.config,
            provenance=self.provenance,
            at_s=at_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What `command=run` tells at its end."""

    batch: BatchRun
    report: BatchReport
    result_path: Path

    @property
    def without_verdict(self) -> tuple[EpisodeFailure, ...]:
        """Episodes that broke; the same command again runs only them."""
        return tuple(
            outcome for outcome in self.batch.outcomes if isinstance(outcome, EpisodeFailure)
        )


async def run_experiment(
    plan: BatchPlan,
    *,
    world: EpisodeWorld,
    store: ExperimentStore,
    observers: Observers,
) -> RunReport:
    """Run what is missing of the batch and write its result file.

    Raises:
        SettingsError: The experiment has begun from another baseline or with other settings.
        StoreError: A fact could not be kept.
    """
    store.begin_generation(
        GenerationRecord(
            experiment_id=plan.experiment_id,
            generation=plan.generation,
            baseline_digest=plan.tree.content_digest,
            behaviour=plan.behaviour,
        ),
        plan.tree,
    )

    async def run(spec: EpisodeSpec) -> EpisodeOutcome:
        return await run_episode(spec, world=world)

    batch = await run_batch(
        plan.started(at_s=observers.clock.unix_s()),
        run_episode=run,
        observers=observers,
        fresh=plan.fresh,
    )
    report = report_batch(
        batch.started,
        batch.outcomes,
        duration_s=batch.duration_s,
        interrupted=False,
        provider=batch.provider,
    )
    path = store.write_result(
        report.result.to_json() + "\n", generation=plan.generation, phase=plan.phase
    )
    return RunReport(batch=batch, report=report, result_path=path)
