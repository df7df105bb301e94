"""`command=run`."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from functools import partial

import anyio

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.paused_episodes import FolderPausedEpisodes
from openeta_exp.adapters.supervision.model_skill_author import ModelSkillAuthor
from openeta_exp.assembly.environments import read_known
from openeta_exp.assembly.money import spending_meter
from openeta_exp.assembly.people import keep_paused_of, supervisors
from openeta_exp.assembly.provenance import behaviour, provenance
from openeta_exp.assembly.tracking import open_tracker
from openeta_exp.assembly.world import World, baseline_tree, is_scripted, open_world
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import Arm, BatchStarted
from openeta_exp.domain.identity import ExecutionId
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.supervision import OnNeedHuman
from openeta_exp.engine.batch import Observers
from openeta_exp.engine.calls import counting
from openeta_exp.engine.episode import AgentTools, EpisodeWorld
from openeta_exp.engine.experiment import BatchPlan, RunReport, run_experiment
from openeta_exp.engine.pause import KeepPaused
from openeta_exp.engine.resume import reconcile
from openeta_exp.engine.skill_changes import SkillChanges
from openeta_exp.engine.summary import report_batch
from openeta_exp.errors import InfrastructureError
from openeta_exp.ports.planner import Planner
from openeta_exp.ports.session_log import SessionLogs
from openeta_exp.ports.store import Journal
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.summary_view import Places
from openeta_exp.reporting.waiting_view import nothing_to_run
from openeta_exp.settings.experiment import ExperimentSettings

GENERATION = 0
PHASE = "train"
"""Of a batch of the whole manifest."""


@contextlib.contextmanager
def experiment_store(settings: ExperimentSettings) -> Iterator[FolderExperimentStore]:
    """The experiment's folder, held until the end.

    Raises:
        SettingsError: Another process is writing it.
    """
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    store = FolderExperimentStore(layout, frames=settings.recording.frames)
    try:
        reconcile(store.journal, FolderPausedEpisodes(layout.interactions), SystemClock())
        yield store
    finally:
        store.close()


def run(settings: ExperimentSettings) -> int:
    """Run what is missing of the batch; 3 if an episode ended without a verdict."""
    manifest = read_known(settings)
    tree = baseline_tree(settings)
    console = Console()
    beginning = GenerationRecord(
        experiment_id=settings.experiment_id,
        generation=GENERATION,
        baseline_digest=tree.content_digest,
        behaviour=behaviour(settings),
    )
    with experiment_store(settings) as store:
        # Refused before anything is started.
        store.check_generation(beginning)
        if not settings.fresh and _is_finished(settings, manifest, tree, store, console):
            return 0
        report = anyio.run(partial(_run, settings, manifest, tree, store, console))
    if report.batch.broke:
        raise InfrastructureError(
            _broken(report, fresh=settings.fresh), code=report.batch.broke[0].code
        )
    return 0


def _broken(report: RunReport, *, fresh: bool) -> str:
    missing, broke = len(report.without_verdict), len(report.batch.broke)
    of = f"of {counted(len(report.batch.outcomes), 'episode')}"
    again = (
        f"{broke - missing} {of} broke when they were run again, and their earlier verdicts stand"
    )
    without = (
        f"{missing} {of} {'has' if missing == 1 else 'have'} no verdict because something outside "
        f"broke; the same command{' without fresh=true' if fresh else ''} runs only these again"
    )
    return "; ".join([*[again] * (missing < broke), *[without] * (missing > 0)])


def _is_finished(
    settings: ExperimentSettings,
    manifest: Manifest,
    tree: ArtifactTree,
    store: FolderExperimentStore,
    console: Console,
) -> bool:
    """Whether each episode of this very batch has a verdict or waits for a person.

    Then its summary is shown again. Nothing is started for it, and nothing is written: it is the
    batch as it ended.
    """
    arm, phase = _arm(settings, tree), phase_of(settings)
    known = store.journal.outcomes(arm.content_digest)
    outcomes = [known.get((spec.content_digest, spec.repeat)) for spec in manifest.episodes]
    finished = [outcome for outcome in outcomes if outcome is not None]
    before = [
        event
        for _, event in store.journal.events()
        if isinstance(event, BatchStarted)
        and (event.generation, event.phase) == (GENERATION, phase)
        and event.arm.content_digest == arm.content_digest
        and event.manifest.content_digest == manifest.content_digest
    ]
    if len(finished) < len(outcomes) or not before:
        return False
    report = report_batch(before[-1], finished, duration_s=0.0, interrupted=False, provider=None)
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    console.summary(
        report.started,
        report.summary,
        places=Places(
            result=layout.generation(GENERATION).phase(phase).result, journal=store.journal_path
        ),
    )
    answered = [
        paused.outcome.session_id for paused in FolderPausedEpisodes(layout.interactions).claimed()
    ]
    for line in nothing_to_run(finished, answered=answered):
        console.note(line)
    return True


def phase_of(settings: ExperimentSettings) -> str:
    """A selection is a batch of its own: it must not take the place of the whole one's result.

    Raises: ManifestError.
    """
    if settings.episodes is None:
        return PHASE
    whole = settings.manifest.read()
    selected = whole.select(settings.episodes)
    if len(selected.episodes) == len(whole.episodes):
        return PHASE
    return f"{PHASE}-selected-{selected.content_digest[:8]}"


def still_to_run(
    settings: ExperimentSettings, manifest: Manifest, tree: ArtifactTree, journal: Journal
) -> tuple[EpisodeSpec, ...]:
    """The episodes of the manifest that `command=run` would run now, in its order."""
    if settings.fresh:
        return manifest.episodes
    known = journal.outcomes(_arm(settings, tree).content_digest)
    return tuple(
        spec for spec in manifest.episodes if (spec.content_digest, spec.repeat) not in known
    )


def _arm(settings: ExperimentSettings, tree: ArtifactTree) -> Arm:
    return Arm(
        label=PHASE,
        tree_digest=tree.content_digest,
        settings=behaviour(settings),
        scripted=is_scripted(settings),
    )


async def _run(
    settings: ExperimentSettings,
    manifest: Manifest,
    tree: ArtifactTree,
    store: FolderExperimentStore,
    console: Console,
) -> RunReport:
    meter = spending_meter(settings, store.journal.spending)
    phase = phase_of(settings)
    async with open_world(settings, manifest, meter=meter) as world:
        plan = await batch_plan(settings, manifest, tree, world, phase=phase)
        with open_tracker(settings, console, journal=store.journal) as tracker:
            report = await run_experiment(
                plan,
                world=episode_world(
                    settings,
                    world,
                    arm=plan.arm,
                    tree=tree,
                    sessions=store.sessions(generation=GENERATION, phase=phase),
                    keep=keep_paused_of(settings, plan.started(at_s=world.clock.unix_s())),
                ),
                store=store,
                observers=Observers(
                    journal=store.journal,
                    tracker=tracker,
                    progress=console,
                    clock=world.clock,
                    calls=counting(world.provider.scope),
                ),
            )
    console.summary(
        report.report.started,
        report.report.summary,
        places=Places(result=report.result_path, journal=store.journal_path),
    )
    return report


async def batch_plan(
    settings: ExperimentSettings,
    manifest: Manifest,
    tree: ArtifactTree,
    world: World,
    *,
    phase: str,
) -> BatchPlan:
    """The batch the settings describe.

    Raises:
        InfrastructureError: Simulator or perception could not be asked what they are.
    """
    return BatchPlan(
        experiment_id=settings.experiment_id,
        generation=GENERATION,
        phase=phase,
        label=phase,
        manifest=manifest,
        tree=tree,
        behaviour=behaviour(settings),
        config=settings.public_json(),
        scripted=is_scripted(settings),
        concurrency=settings.concurrency.episodes,
        provenance=provenance(
            settings,
            manifest,
            simulator=await world.simulator.describe(),
            perception={} if world.perception is None else await world.perception.describe(),
        ),
        fresh=settings.fresh,
    )


def episode_world(
    settings: ExperimentSettings,
    world: World,
    *,
    arm: Arm,
    tree: ArtifactTree,
    sessions: SessionLogs,
    planner: Planner | None = None,
    keep: KeepPaused | None = None,
) -> EpisodeWorld:
    """What the episodes of one arm share.

    Args:
        planner: Takes the place of the configured one.
        keep: Where an episode that waits for a person is put.
    """
    standing = supervisors(settings, world.provider, world.clock, Console())
    return EpisodeWorld(
        simulator=world.simulator,
        planner=planner or world.planner,
        perception=world.perception,
        gate=standing.gate,
        guidance=standing.guidance,
        sessions=sessions,
        clock=world.clock,
        tree=tree,
        arm_digest=arm.content_digest,
        on_need_human=OnNeedHuman(settings.on_need_human),
        new_execution_id=lambda: ExecutionId(uuid.uuid4().hex),
        keep_paused=keep,
        agent_tools=AgentTools(
            memory=settings.agent.memory,
            skill_changes=SkillChanges(
                author=ModelSkillAuthor(world.provider), judge=standing.skill_judge
            )
            if settings.agent.skill_changes
            else None,
            sandbox=world.sandbox,
            enforce_allowed_tools=settings.agent.enforce_allowed_tools,
        ),
    )
