"""What the engine itself costs: no physics, no thinking, two 256x256 RGB-D frames a turn.

    scripts/bench harness [--long]

Real MCP over HTTP, the real openai client against a real HTTP server, journal and session traces
on disk; simulator and models are other processes and are not counted. With a latency, the makespan
is set against the model calls alone, and against the same calls by the bare clients, each run next
to it. Prints one JSON line per measurement.
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
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
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
from scripts.benchmarks.bare_clients import BareClients

TURNS = 5
MODEL = "scripted-fixed-sequence"


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
    makespan_over_bare_clients: float | None = None
    bare_clients_over_ideal: float | None = None


def null_simulator() -> AbstractContextManager[str]:
    return served(str(Path(__file__).with_name("null_simulator.py")))


def models(latency_s: float) -> AbstractContextManager[str]:
    return served("-m", "openeta_exp.embedded.models", "--faults", f"latency={latency_s:g}")


@contextmanager
def served(*program: str) -> Iterator[str]:
    """The URL of a server in a process of its own."""
    with subprocess.Popen([sys.executable, *program], stdout=subprocess.PIPE, text=True) as server:
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

    @property
    def ideal_s(self) -> float:
        """Every slot answers one call after the other, from the first moment to the last."""
        return self.episodes * TURNS * self.latency_s / self.provider_slots


LOADS = (Load(64, 8, 8, 0.0), Load(64, 8, 8, 0.2), Load(64, 16, 8, 0.2), Load(256, 16, 8, 0.2))
LONG = Load(1000, 8, 8, 0.0)


def settings_for(folder: Path, url: str, models_url: str, load: Load) -> ExperimentSettings:
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
            "provider=openai",
            f"provider.base_url={models_url}",
            f"provider.model={MODEL}",
            f"concurrency.episodes={concurrency}",
            f"concurrency.provider={load.provider_slots}",
        ]
    )


async def measure(settings: ExperimentSettings, load: Load) -> Measured:
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
    return Measured(
        **asdict(load),
        wall_s=round(wall_s, 2),
        engine_cpu_ms_per_turn=round(1000 * cpu_s / turns, 2),
        engine_peak_mb=round(_peak_mb(), 1),
        engine_growth_mb=round(_peak_mb() - memory_mb, 1),
        makespan_over_ideal=round(wall_s / load.ideal_s, 3) if load.latency_s else None,
    )


async def beside_bare_clients(measured: Measured, load: Load, clients: BareClients) -> Measured:
    bare_s = await clients.run(
        episodes=load.episodes, concurrency=load.concurrency, model_calls=load.provider_slots
    )
    return replace(
        measured,
        makespan_over_bare_clients=round(measured.wall_s / bare_s, 3),
        bare_clients_over_ideal=round(bare_s / load.ideal_s, 3),
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
            with models(load.latency_s) as models_url:
                settings = settings_for(Path(folder), url, models_url, load)
                measured = anyio.run(measure, settings, load)
                if load.latency_s:
                    clients = BareClients(simulator_url=url, models_url=models_url, model=MODEL)
                    measured = anyio.run(beside_bare_clients, measured, load, clients)
            print(json.dumps(asdict(measured)), flush=True)


if __name__ == "__main__":
    main()
