"""What the engine itself costs: no physics, no thinking, two 256x256 RGB-D frames a turn.

    scripts/bench/harness.py [--long]

Real MCP over HTTP, the real openai client against a real HTTP server, journal and session traces
on disk; simulator and models are other processes and are not counted. Prints one JSON line per
measurement and the figures as a table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.assembly.run import PHASE, batch_plan, episode_world
from openeta_exp.assembly.world import baseline_tree, open_world
from openeta_exp.composition import compose_settings
from openeta_exp.engine.batch import Observers
from openeta_exp.engine.calls import counting
from openeta_exp.engine.experiment import run_experiment
from openeta_exp.engine.progress import NoProgress
from openeta_exp.settings.experiment import ExperimentSettings

TURNS = 5


@dataclass(frozen=True)
class Measured:
    """One run of the engine."""

    episodes: int
    concurrency: int
    provider_slots: int
    latency_s: float
    wall_s: float
    engine_cpu_ms_per_turn: float
    engine_peak_mb: float
    engine_growth_mb: float
    makespan_over_ideal: float | None


@contextmanager
def null_simulator() -> Iterator[str]:
    script = Path(__file__).with_name("null_simulator.py")
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield str(json.loads(server.stdout.readline())["url"])
        finally:
            server.terminate()


@dataclass(frozen=True)
class Load:
    """What the engine is asked to do."""

    episodes: int
    concurrency: int
    provider_slots: int
    latency_s: float


LOADS = (Load(64, 8, 8, 0.0), Load(64, 8, 8, 0.2), Load(64, 16, 8, 0.2), Load(256, 16, 8, 0.2))
LONG = Load(1000, 8, 8, 0.0)


def settings_for(folder: Path, url: str, load: Load) -> ExperimentSettings:
    episodes, concurrency, latency_s = load.episodes, load.concurrency, load.latency_s
    manifest = folder / f"{episodes}.json"
    rows = [
        {"env_id": "openeta/null-v0", "task": "do nothing", "seed": seed}
        for seed in range(episodes)
    ]
    manifest.write_text(json.dumps(rows), encoding="utf-8")
    return compose_settings(
        [
            f"manifest.path={manifest}",
            f"output_root={folder / 'outputs'}",
            f"experiment_id=bench-{episodes}-{concurrency}-{latency_s:g}",
            "simulator=mcp",
            f"simulator.url={url}",
            "perception=none",
            "tracking=none",
            "provider.model=scripted-fixed-sequence",
            f"provider.latency_s={latency_s}",
            f"concurrency.episodes={concurrency}",
            f"concurrency.provider={load.provider_slots}",
        ]
    )


async def measure(settings: ExperimentSettings) -> Measured:
    manifest = settings.read_manifest()
    tree = baseline_tree(settings)
    layout = ExperimentLayout.below(settings.output_root, settings.experiment_id)
    store = FolderExperimentStore(layout, frames="none")
    async with open_world(settings, manifest) as world:
        plan = await batch_plan(settings, manifest, tree, world, phase=PHASE)
        await world.provider.ping()  # Connections and imports are paid before the clock starts.
        before, memory_mb, begun = _cpu_s(), _peak_mb(), time.monotonic()
        report = await run_experiment(
            plan,
            world=episode_world(
                settings,
                world,
                arm=plan.arm,
                tree=tree,
                sessions=store.sessions(generation=0, phase=PHASE),
            ),
            store=store,
            observers=Observers(
                journal=store.journal,
                tracker=NullTracker(),
                progress=NoProgress(),
                clock=world.clock,
                calls=counting(world.provider.scope),
            ),
        )
        cpu_s, wall_s = _cpu_s() - before, time.monotonic() - begun
    store.close()
    turns = sum(outcome.usage.turns for outcome in report.batch.outcomes)
    assert turns == TURNS * len(manifest.episodes), "the fixed sequence has five turns"
    concurrency = settings.concurrency.episodes
    latency_s = float(settings.provider.model_dump()["latency_s"])
    slots = settings.concurrency.provider
    # Every slot answers one call after the other, from the first moment to the last.
    ideal_s = len(manifest.episodes) * TURNS * latency_s / slots
    return Measured(
        episodes=len(manifest.episodes),
        concurrency=concurrency,
        provider_slots=slots,
        latency_s=latency_s,
        wall_s=round(wall_s, 2),
        engine_cpu_ms_per_turn=round(1000 * cpu_s / turns, 2),
        engine_peak_mb=round(_peak_mb(), 1),
        engine_growth_mb=round(_peak_mb() - memory_mb, 1),
        makespan_over_ideal=round(wall_s / ideal_s, 3) if ideal_s else None,
    )


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--long", action="store_true", help="also 1,000 episodes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, null_simulator() as url:
        for load in (*LOADS, LONG) if options.long else LOADS:
            settings = settings_for(Path(folder), url, load)
            print(json.dumps(anyio.run(measure, settings).__dict__), flush=True)


if __name__ == "__main__":
    main()
