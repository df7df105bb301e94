"""A whole LIBERO batch against the bare scripted loop over the same episodes, in one run.

    scripts/bench libero_batch [--seeds 10]

The bare loop knows the true poses and runs in two processes without server, model, images or
records. The batch is `python -m openeta_exp` as a user starts it: planner over HTTP, simulator and
perception over MCP, journal, session traces and MLflow. Ten objects, `--seeds` initial states each;
the figure is the ratio of wall times, so run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from openeta_exp.wire.batch_result import parse_batch_result
from scripts.benchmarks.sim import LIBERO_OBJECT, run_bare

PROCESSES = 2
LIMIT_S = 3600


def run_batch(folder: Path, seeds: int) -> tuple[float, int, int]:
    """Wall seconds, successes and episodes of the whole program."""
    from openeta_exp.embedded.simulator.libero_suites import libero_tasks

    tasks = {f"openeta/libero_libero_object_task{task.task_index}-v0": task.instruction
             for task in libero_tasks() if task.suite == "libero_object"}  # fmt: skip
    rows = [
        {
            "episode_id": f"object-{number}",
            "env_id": env_id,
            "seeds": {"first": 0, "last": seeds - 1},
            "task": tasks[env_id],
        }
        for number, env_id in enumerate(LIBERO_OBJECT)
    ]
    (folder / "episodes.json").write_text(json.dumps(rows), encoding="utf-8")
    started = time.perf_counter()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "openeta_exp",
            "manifest.path=episodes.json",
            "simulator.quality=fast",
            f"concurrency.episodes={PROCESSES}",
            "experiment_id=bench",
        ],
        cwd=folder,
        check=True,
        timeout=LIMIT_S,
    )
    wall_s = time.perf_counter() - started
    path = folder / "outputs/experiments/bench/generations/000/train/result.json"
    result = parse_batch_result(path.read_bytes(), source=str(path))
    return wall_s, result.success_count, result.episode_count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=10, help="initial states per object")
    options = parser.parse_args()
    bare = run_bare(seeds=tuple(range(options.seeds)), processes=PROCESSES)
    print(json.dumps({"bare_s": round(bare.seconds, 1), "solved": bare.successes}), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wall_s, solved, episodes = run_batch(Path(folder), options.seeds)
    print(
        json.dumps(
            {
                "episodes": episodes,
                "batch_s": round(wall_s, 1),
                "solved": solved,
                "ratio": round(wall_s / bare.seconds, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
