"""What it costs to keep and to show a fact: `scripts/bench store [--episodes N]`.

Medians over single calls, so that a busy machine shows in the 95th percentile and not in the
figure. Everything is written to a temporary folder.
"""

from __future__ import annotations

import argparse
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.adapters.tracking.messages import MlflowTarget
from openeta_exp.adapters.tracking.mlflow_tracker import MlflowTracker
from openeta_exp.domain.event import Event
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.summary import summarise
from openeta_exp.engine.summary import report_batch
from openeta_exp.statistics.clustered_intervals import clustered_wilson
from tests.batches import arm, manifest, started, story, won

T = TypeVar("T")
EXPERIMENT = "exp"
"""As the facts say."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--episodes", type=int, default=10_000)
    specs = manifest(parser.parse_args().episodes)
    facts = list(story(specs, [won(each) for each in specs.episodes]))
    with tempfile.TemporaryDirectory() as name:
        layout = ExperimentLayout.below(Path(name), EXPERIMENT)
        layout.journal.parent.mkdir(parents=True)
        bench_append(layout.journal, facts)
        bench_outcomes(layout.journal, specs)
        bench_inspect(Path(name))
        bench_publish(Path(name), facts)


def bench_append(path: Path, facts: Sequence[Event]) -> None:
    journal = SqliteJournal(path)
    report("journal: append one fact", timed(journal.append, facts))
    journal.close()
    print(f"{'journal: size on disk':<40} {path.stat().st_size / len(facts):10.0f} bytes per fact")


def bench_outcomes(path: Path, specs: Manifest) -> None:
    with clocked("journal: open"):
        journal = SqliteJournal(path)
    with clocked(f"journal: {len(specs.episodes):,} outcomes of an arm"):
        outcomes = journal.outcomes(arm().content_digest)
    with clocked("summary of them"):
        summarise(specs, outcomes.values(), interval=clustered_wilson, duration_s=1.0)
    with clocked("summary and result file of them"):
        report_batch(
            started(specs),
            list(outcomes.values()),
            duration_s=1.0,
            interrupted=False,
            provider=None,
        ).result.to_json()
    journal.close()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'memory at its highest, benchmark included':<40} {peak_mb:10.0f} MB")


def bench_inspect(output_root: Path) -> None:
    """The command as typed, from its start to its end."""
    begun_s = time.perf_counter()
    command = subprocess.Popen(
        [
            *(sys.executable, "-m", "openeta_exp", "command=inspect"),
            *(f"output_root={output_root}", f"experiment_id={EXPERIMENT}"),
        ],
        stdout=subprocess.DEVNULL,
    )
    peak_kb = 0
    # The kernel's own highest mark counts what this process held when it was copied.
    while command.poll() is None:
        peak_kb = max(peak_kb, _highest_kb(command.pid))
        time.sleep(0.005)
    wall_s = time.perf_counter() - begun_s
    assert command.returncode == 0, "command=inspect failed"
    print(f"{'command=inspect':<40} {wall_s:10.2f} s wall, {peak_kb / 1024:.0f} MB")


def _highest_kb(pid: int) -> int:
    """Resident memory of a process at its highest; 0 of one that has just ended."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) if found else 0


def bench_publish(folder: Path, facts: Sequence[Event]) -> None:
    """To a server that is not there: the most unfavourable case."""
    target = MlflowTarget(uri="http://127.0.0.1:9", artifact_root=None, experiment_name="bench")
    tracker = MlflowTracker(target, log=folder / "projector.log")
    numbered = [[pair] for pair in enumerate(facts, start=1)]
    report("tracker: publish one fact, server dead", timed(tracker.publish, numbered))
    with clocked("tracker: give up"):
        tracker.close(timeout_s=0.0)


def timed(call: Callable[[T], object], arguments: Sequence[T]) -> list[float]:
    """Seconds of each call."""
    took_s = []
    for argument in arguments:
        before_s = time.perf_counter()
        call(argument)
        took_s.append(time.perf_counter() - before_s)
    return took_s


def report(name: str, took_s: Sequence[float]) -> None:
    ranked = sorted(took_s)
    p95_s = ranked[int(0.95 * len(ranked))]
    median_us = statistics.median(ranked) * 1e6
    print(f"{name:<40} {median_us:10.1f} us median, {p95_s * 1e6:.1f} us p95, n={len(ranked)}")


@contextmanager
def clocked(name: str) -> Iterator[None]:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    yield
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    print(f"{name:<40} {cpu_s:10.2f} s CPU, {wall_s:.2f} s wall")


if __name__ == "__main__":
    main()
