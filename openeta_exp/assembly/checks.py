"""`command=validate`, `capacity` and `preflight`."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

import anyio

from openeta_exp.adapters.planner.finishing_planner import FinishingPlanner
from openeta_exp.adapters.store.layout import ExperimentLayout, PhaseLayout
from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.store.session_log import FolderSessionLogs
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.assembly.authors import check_author
from openeta_exp.assembly.environments import read_known
from openeta_exp.assembly.forecast import earlier_of, forecast_lineage, forecast_run
from openeta_exp.assembly.run import batch_plan, episode_world, still_to_run
from openeta_exp.assembly.splits import read_splits
from openeta_exp.assembly.world import World, baseline_tree, open_world
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.counting import counted
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.engine.batch import BatchRun, Observers, run_batch
from openeta_exp.engine.episode import run_episode
from openeta_exp.engine.preflight import Check, Estimate, estimate, run_checks
from openeta_exp.errors import InfrastructureError
from openeta_exp.reporting.capacity_view import CapacityProgress, has_worked
from openeta_exp.reporting.console import Console
from openeta_exp.settings.command import PreflightSettings
from openeta_exp.settings.experiment import ExperimentSettings


def validate(settings: ExperimentSettings) -> int:
    """Settings, manifests and baseline, without a socket being opened."""
    check_author(settings.author)
    manifest = read_known(settings)
    if settings.held_out is not None:
        read_splits(settings)
    tree = baseline_tree(settings)
    Console().text(
        json.dumps(
            {
                "valid": True,
                "episode_count": len(manifest.episodes),
                "concurrency": settings.concurrency.episodes,
                "manifest_digest": manifest.content_digest,
                "baseline_digest": tree.content_digest,
            }
        )
        + "\n"
    )
    return 0


def capacity(settings: ExperimentSettings) -> int:
    """Create, reset and close every environment of the manifest; 3 if one could not."""
    manifest = read_known(settings)
    console = Console()
    batch = anyio.run(partial(_capacity, settings, manifest, baseline_tree(settings), console))
    broken = [outcome for outcome in batch.outcomes if not has_worked(outcome)]
    durations = [outcome.usage.duration_s for outcome in batch.outcomes]
    console.text(
        json.dumps(
            {
                "ok": not broken,
                "episode_count": len(batch.outcomes),
                "concurrency": batch.started.concurrency,
                "duration_s": round(batch.duration_s, 3),
                "open_reset_close_s": {
                    "median": round(median(durations), 3),
                    "max": round(max(durations), 3),
                },
                "failures": [outcome.episode_id for outcome in broken],
            }
        )
        + "\n"
    )
    if broken:
        raise InfrastructureError(
            f"{len(broken)} of {counted(len(batch.outcomes), 'environment')} could not be "
            "opened, reset and closed"
        )
    return 0


async def _capacity(
    settings: ExperimentSettings, manifest: Manifest, tree: ArtifactTree, console: Console
) -> BatchRun:
    with tempfile.TemporaryDirectory() as folder:
        async with open_world(settings, manifest) as world:
            plan = await batch_plan(settings, manifest, tree, world, phase="capacity")
            episodes = episode_world(
                settings,
                world,
                arm=plan.arm,
                tree=tree,
                sessions=FolderSessionLogs(PhaseLayout(Path(folder)), frames="none"),
                planner=FinishingPlanner(),
            )

            async def run(spec: EpisodeSpec) -> EpisodeOutcome:
                return await run_episode(spec, world=episodes)

            return await run_batch(
                plan.started(at_s=world.clock.unix_s()),
                run_episode=run,
                observers=Observers(
                    journal=MemoryJournal(),
                    tracker=NullTracker(),
                    progress=CapacityProgress(console.note),
                    clock=world.clock,
                ),
            )


def preflight(settings: ExperimentSettings, asked: PreflightSettings) -> int:
    """Try everything the batch will need, and forecast what it costs; 3 if a check failed."""
    manifest = read_known(settings)
    splits = None if settings.held_out is None else read_splits(settings)
    tree = baseline_tree(settings)
    console = Console()
    checks = anyio.run(partial(_preflight, settings, manifest, asked))
    to_run, time_s = _time(settings, manifest, tree)
    earlier = earlier_of(settings)
    costs = [forecast_run(settings, to_run, earlier)]
    if splits is not None:
        costs.append(forecast_lineage(settings, splits, earlier))
    for check in checks:
        console.note(_check_line(check))
    if len(to_run) < len(manifest.episodes):
        console.note(
            f"{len(manifest.episodes) - len(to_run)} of "
            f"{counted(len(manifest.episodes), 'episode')} of the manifest ended before: not run "
            "again, and left out of its forecast"
        )
    for cost in costs:
        for sentence in cost.sentences():
            console.note(sentence)
    console.note(_time_text(time_s))
    failed = [check for check in checks if not check.ok]
    console.text(
        json.dumps(
            {
                "schema_version": "openeta.command_preflight.v1",
                "ok": not failed,
                "errors": [f"{check.name}: {check.detail}" for check in failed],
                "episode_count": len(manifest.episodes),
                "concurrency": settings.concurrency.episodes,
                "baseline_digest": tree.content_digest,
                "checks": [
                    {"name": each.name, "ok": each.ok, "detail": each.detail} for each in checks
                ],
                "estimate": {
                    "basis_episodes": time_s.basis,
                    **costs[0].to_json(),
                    "wall_s": round(time_s.wall_s, 1),
                },
                "lineage_estimate": costs[1].to_json() if len(costs) > 1 else None,
            }
        )
        + "\n"
    )
    if failed:
        raise InfrastructureError(f"{len(failed)} of {counted(len(checks), 'check')} failed")
    return 0


async def _preflight(
    settings: ExperimentSettings, manifest: Manifest, asked: PreflightSettings
) -> tuple[Check, ...]:
    async with open_world(settings, manifest) as world:
        checks = await _checks(world, manifest, asked)
        if not asked.subagents:
            return checks
        from openeta_exp.assembly.subagent_eval import MAX_DANGER_RATE, subagent_check

        examined = await subagent_check(settings, world.provider, max_danger_rate=MAX_DANGER_RATE)
        return (*checks, examined)


async def _checks(world: World, manifest: Manifest, asked: PreflightSettings) -> tuple[Check, ...]:
    return await run_checks(
        manifest,
        simulator=None if asked.skip_mcp_check else world.simulator,
        perception=None if asked.skip_mcp_check else world.perception,
        provider=world.provider,
        clock=world.clock,
        timeout_s=asked.mcp_timeout_s,
    )


def _time(
    settings: ExperimentSettings, manifest: Manifest, tree: ArtifactTree
) -> tuple[tuple[EpisodeSpec, ...], Estimate]:
    """Which episodes `run` would run, and how long they take, by the experiment's journal."""
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    earlier: list[EpisodeOutcome] = []
    to_run = manifest.episodes
    if layout.journal.is_file():
        journal = SqliteJournal(layout.journal, read_only=True)
        try:
            to_run = still_to_run(settings, manifest, tree, journal)
            earlier = [
                event.outcome for _, event in journal.events() if event.kind == "episode_ended"
            ]
        finally:
            journal.close()
    return to_run, estimate(to_run, earlier, concurrency=settings.concurrency.episodes)


def _check_line(check: Check) -> str:
    found = "ok" if check.ok else "FAILED"
    return f"{found:7}{check.name} ({check.seconds:.1f} s) {check.detail}".rstrip()


def _time_text(time_s: Estimate) -> str:
    if time_s.basis == 0:
        return (
            f"at most {time_s.wall_s / 3600:,.1f} h by the budgets of "
            f"{counted(time_s.episodes, 'episode')}; no earlier episode to estimate from"
        )
    return (
        f"about {time_s.wall_s / 60:,.1f} min for {counted(time_s.episodes, 'episode')}, from "
        f"{counted(time_s.basis, 'earlier one')}"
    )
