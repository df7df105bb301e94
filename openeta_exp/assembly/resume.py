"""`command=resume`: answer a question and run its episode again."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import anyio

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.adapters.store.paused_episodes import FolderPausedEpisodes
from openeta_exp.assembly.money import spending_meter
from openeta_exp.assembly.people import keep_paused
from openeta_exp.assembly.run import episode_world
from openeta_exp.assembly.tracking import open_tracker
from openeta_exp.assembly.waiting import Desk, desks
from openeta_exp.assembly.world import open_world
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.engine.batch import Observers
from openeta_exp.engine.resume import Reply, claim, reconcile, report_again, resume
from openeta_exp.engine.summary import BatchReport
from openeta_exp.errors import InfrastructureError, SettingsError
from openeta_exp.reporting.console import Console
from openeta_exp.settings.command import ResumeSettings
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.parsing import parse_settings
from openeta_exp.wire.resume_report import resume_report


def resume_paused(settings: ExperimentSettings, asked: ResumeSettings) -> int:
    """Run the episode with the answer and bring its batch's result file up to date.

    Raises:
        SettingsError: There is no such question, its id is stale, or somebody else has answered.
        InfrastructureError: The episode broke; the same command tries again.
    """
    desk = _desk(settings.output_root, asked.session_id)
    store = _open(desk, asked)
    try:
        clock = SystemClock()
        reconcile(store.journal, desk.paused, clock)
        reply = Reply(
            session_id=asked.session_id, interaction_id=asked.interaction_id, answer=asked.answer
        )
        paused = claim(reply, desk.paused, clock)
        then = _settings_of(paused, settings)
        outcome = anyio.run(partial(_resume, then, paused, desk.paused, store))
        report = _write_result(store, paused)
    finally:
        store.close()
    shown = resume_report(paused.spec, outcome, index=_index(report, paused))
    Console().text(json.dumps(shown, indent=2) + "\n")
    if isinstance(outcome, EpisodeFailure):
        raise InfrastructureError(
            f"the resumed episode has no verdict: {outcome.message}; the answer is kept, "
            f"`command=resume session_id={asked.session_id}` tries again",
            code=outcome.code,
        )
    return 0


def _desk(output_root: Path, session_id: str) -> Desk:
    for desk in desks(output_root):
        for paused in (*desk.paused.pending(), *desk.paused.claimed()):
            if paused.outcome.session_id == session_id:
                return desk
    raise SettingsError(
        f"session_id = {session_id}: has no pending question below {output_root}; "
        "`command=pending` lists those that have"
    )


def _open(desk: Desk, asked: ResumeSettings) -> FolderExperimentStore:
    """Raises: SettingsError: Another process is writing the experiment."""
    try:
        return FolderExperimentStore(desk.layout)
    except SettingsError as error:
        for paused in desk.paused.claimed():
            if paused.outcome.session_id == asked.session_id:
                raise SettingsError(
                    f"interaction_id = {paused.interaction.interaction_id}: was answered already; "
                    "its episode is being run"
                ) from error
        raise


def _settings_of(paused: PausedEpisode, now: ExperimentSettings) -> ExperimentSettings:
    """The settings the episode began under, wherever the outputs lie and whatever may be spent
    today."""
    config: JsonObject = {
        **paused.config,
        "output_root": str(now.output_root),
        "money": now.money.model_dump(mode="json"),
        "command": {"kind": "run"},
        # The session's own copy of the tree is what counts.
        "baseline": {"tree": "standard"},
    }
    return parse_settings(config, origin=lambda path: "the paused episode's settings")


async def _resume(
    settings: ExperimentSettings,
    paused: PausedEpisode,
    records: FolderPausedEpisodes,
    store: FolderExperimentStore,
) -> EpisodeOutcome:
    console = Console()
    manifest = Manifest(episodes=(paused.spec,))
    sessions = store.sessions(generation=paused.generation, phase=paused.phase)
    meter = spending_meter(settings, store.journal.spending, generation=paused.generation)
    async with open_world(settings, manifest, meter=meter) as world:
        episodes = episode_world(
            settings,
            world,
            arm=paused.arm,
            tree=ArtifactTree(),
            sessions=sessions,
            keep=keep_paused(paused, records, world.clock),
        )
        with open_tracker(settings, console, journal=store.journal) as tracker:
            return await resume(
                paused,
                world=episodes,
                observers=Observers(
                    journal=store.journal, tracker=tracker, progress=console, clock=world.clock
                ),
                records=records,
            )


def _index(report: BatchReport | None, paused: PausedEpisode) -> int:
    """Position in the batch's manifest as it is now; 0 if the row is no longer part of it."""
    rows = () if report is None else report.started.manifest.episodes
    wanted = paused.spec.content_digest
    return next((at for at, spec in enumerate(rows) if spec.content_digest == wanted), 0)


def _write_result(store: FolderExperimentStore, paused: PausedEpisode) -> BatchReport | None:
    report = report_again(paused.batch_id, store.journal)
    if report is not None:
        store.write_result(
            report.result.to_json() + "\n", generation=paused.generation, phase=paused.phase
        )
    return report
