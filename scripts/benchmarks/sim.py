"""What the embedded simulator costs, against a bare loop over the same environment.

    scripts/bench sim [--episodes 100] [--rounds 5] [--no-batch] [--no-speed]

Prints one JSON line per measurement:

- speed: control steps per second through `move_to` over HTTP, and of a bare loop, in turns; with
  a camera, also of a bare loop that draws as many frames;
- memory: resident and proportional megabytes of an environment process;
- batch: the bare scripted loop over whole LIBERO object episodes, two processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import anyio
from mcp import Client
from mcp_types import TextContent

from openeta_exp.embedded.simulator.env_ids import LiberoId, TabletopId, parse_env_id
from openeta_exp.embedded.simulator.gl import Gl, environment_with
from openeta_exp.embedded.simulator.libero_suites import libero_tasks
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.replies import CreateReply, MotionReply, Observation
from openeta_exp.embedded.simulator.tabletop.tasks import TASKS
from openeta_exp.embedded.simulator.worker import build_backend
from scripts.benchmarks.bare_loop import BareLoop, Round
from scripts.benchmarks.bare_loop import processes as bare_processes
from scripts.benchmarks.sim_pick import LADDER, BareArm, Strategy, pick_and_place

SOUP = str(LiberoId("libero_object", 0))
CAN = str(TabletopId("pick_can_basket"))
LIBERO_OBJECT = tuple(str(LiberoId("libero_object", index)) for index in range(10))
_LEGS = ((0.06, 0.10, 0.05), (-0.06, -0.10, 0.10))
"""Offsets from where the hand starts, in metres; free space in every scene."""


@dataclass(frozen=True, slots=True)
class BareBatch:
    """A batch of scripted episodes without server, model, images or records.

    Attributes:
        seconds: Wall time of everything, starting processes and building environments included.
        building_s: Process seconds that went into building, summed over processes.
        successes: By the environment's own checker.
    """

    episodes: int
    successes: int
    control_steps: int
    processes: int
    seconds: float
    building_s: float


@dataclass(frozen=True, slots=True)
class _TaskRun:
    successes: int
    control_steps: int
    building_s: float


def run_bare(
    env_ids: Sequence[str] = LIBERO_OBJECT,
    seeds: Sequence[int] = tuple(range(10)),
    *,
    processes: int = 2,
    strategy: Strategy | None = None,
) -> BareBatch:
    """Run every seed of every environment, a task at a time in each process."""
    started = time.perf_counter()
    with bare_processes(processes) as pool:
        runs = list(
            pool.map(
                _run_task,
                env_ids,
                [tuple(seeds)] * len(env_ids),
                [strategy or Strategy()] * len(env_ids),
            )
        )
    return BareBatch(
        episodes=len(env_ids) * len(seeds),
        successes=sum(run.successes for run in runs),
        control_steps=sum(run.control_steps for run in runs),
        processes=processes,
        seconds=time.perf_counter() - started,
        building_s=sum(run.building_s for run in runs),
    )


def _run_task(env_id: str, seeds: Sequence[int], strategy: Strategy) -> _TaskRun:
    started = time.perf_counter()
    backend = build_backend(env_id)
    building_s = time.perf_counter() - started
    arm = BareArm(backend)
    target, container = goal_of(env_id)
    won = 0
    for seed in seeds:
        arm.reset(seed)
        won += anyio.run(_pick, arm, target, container, strategy)
    backend.close()
    return _TaskRun(successes=won, control_steps=arm.steps, building_s=building_s)


async def _pick(arm: BareArm, target: str, container: str, strategy: Strategy) -> bool:
    return await pick_and_place(arm, target=target, container=container, strategy=strategy)


def goal_of(env_id: str) -> tuple[str, str]:
    """The thing to move and where it belongs, for tasks of the pick-and-place kind."""
    match parse_env_id(env_id):
        case TabletopId(slug=slug):
            container = "shelf_1" if slug.endswith("_on_shelf") else "basket_1"
            return TASKS[slug].target, container
        case LiberoId(suite=suite, task_index=index):
            task = next(t for t in libero_tasks() if (t.suite, t.task_index) == (suite, index))
            thing, *rest = task.objects_of_interest
            return thing, rest[0] if rest else "basket_1"


@contextmanager
def server(*options: str) -> Iterator[tuple[str, int, Gl]]:
    """A simulator server's `/mcp` address, process id and GL platform."""
    command = [sys.executable, "-m", "openeta_exp.embedded.simulator", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment_with(Gl.NONE)
    ) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield ready["url"], process.pid, Gl(ready["gl"])
        finally:
            process.terminate()


@dataclass(frozen=True, slots=True)
class Speed:
    """Medians over interleaved rounds.

    Attributes:
        ratio: Served over bare steps per second of wall time. The bare loop draws nothing.
        ratio_to_drawing: The same over a bare loop that draws as many frames, as arrays.
        cpu_ratio: Bare over served CPU per step; does not care who else uses the machine.
    """

    env_id: str
    cameras: int
    quality: str
    bare_steps_per_s: float
    served_steps_per_s: float
    ratio: float
    ratio_to_drawing: float
    cpu_ratio: float
    steps_per_call: float
    reset_ms: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one environment process, after episodes; megabytes."""

    env_id: str
    cameras: int
    resident_mb: float
    proportional_mb: float


async def measure_served(
    env_id: str, *, cameras: Sequence[str], quality: str, rounds: int, steps: int
) -> tuple[Speed, Memory]:
    """Take turns: a bare round, then a round of `move_to` calls, on warmed-up environments."""
    rounds_of: list[tuple[Round, Round, Round]] = []
    calls, resets_s = 0, []
    with server("--quality", quality, "--max-envs", "1") as (url, pid, gl):
        camera = cameras[0] if cameras else None
        bare = BareLoop(env_id, camera=camera, quality=Quality(quality), gl=gl)
        async with Client(url) as client:
            created = CreateReply.from_json(
                await _call(client, "create_env", env_id=env_id, cameras=list(cameras))
            )
            processes = [pid, *_children(pid)]
            for index in range(rounds + 1):
                alone = bare.run(steps)
                started = time.perf_counter()
                text = await _call(client, "reset_env", handle=created.handle, seed=index)
                reset_s = time.perf_counter() - started
                home = Observation.from_json(text).robot.end_effector_pose.xyz
                served, legs = await _travel(client, created.handle, home, processes, steps=steps)
                drawing = bare.run(steps, frame_every=round(served.steps / legs))
                # The first round loads textures and compiles; nobody waits for it again.
                if index > 0:
                    rounds_of.append((alone, served, drawing))
                    resets_s.append(reset_s)
                    calls += legs
            memory = memory_of(processes[-1], env_id=env_id, cameras=len(cameras))
    bare.close()
    median = statistics.median
    speed = Speed(
        env_id=env_id,
        cameras=len(cameras),
        quality=quality,
        bare_steps_per_s=median(b.per_s for b, _, _ in rounds_of),
        served_steps_per_s=median(s.per_s for _, s, _ in rounds_of),
        ratio=median(s.per_s / b.per_s for b, s, _ in rounds_of),
        ratio_to_drawing=median(s.per_s / d.per_s for _, s, d in rounds_of),
        cpu_ratio=median((b.cpu_s / b.steps) / (s.cpu_s / s.steps) for b, s, _ in rounds_of),
        steps_per_call=sum(s.steps for _, s, _ in rounds_of) / calls,
        reset_ms=1000 * median(resets_s),
    )
    return speed, memory


async def _travel(
    client: Client,
    handle: str,
    home: tuple[float, float, float],
    processes: Sequence[int],
    *,
    steps: int,
) -> tuple[Round, int]:
    """Move back and forth until so many control steps are done; also tell in how many calls."""
    executed, leg = 0, 0
    wall, cpu = time.perf_counter(), _cpu_s(processes)
    while executed < steps:
        x, y, z = (a + b for a, b in zip(home, _LEGS[leg % 2], strict=True))
        text = await _call(client, "move_to", handle=handle, x=x, y=y, z=z)
        executed += MotionReply.from_json(text).steps_executed
        leg += 1
    return Round(executed, time.perf_counter() - wall, _cpu_s(processes) - cpu), leg


def _cpu_s(processes: Sequence[int]) -> float:
    """CPU seconds so far (Linux)."""
    ticks = 0
    for pid in processes:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int, *, env_id: str, cameras: int) -> Memory:
    """From the kernel's own accounts (Linux)."""
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        key, size_kb, _ = line.split()
        sizes[key] = int(size_kb) / 1000
    return Memory(
        env_id=env_id,
        cameras=cameras,
        resident_mb=round(sizes["Rss:"]),
        proportional_mb=round(sizes["Pss:"]),
    )


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text(encoding="ascii").split()]


async def _call(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    (block,) = result.content
    if result.is_error or not isinstance(block, TextContent):
        raise RuntimeError(f"{tool} failed: {result.content}")
    return block.text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--strategy", choices=sorted(LADDER), default="best")
    parser.add_argument("--no-batch", action="store_true")
    parser.add_argument("--no-speed", action="store_true")
    options = parser.parse_args()
    if not options.no_speed:
        plans = (
            (CAN, (), "fast"),
            (SOUP, (), "benchmark"),
            (SOUP, ("agentview",), "fast"),
            (SOUP, ("agentview",), "benchmark"),
        )
        for env_id, cameras, quality in plans:
            measure = partial(
                measure_served,
                env_id,
                cameras=cameras,
                quality=quality,
                rounds=options.rounds,
                steps=options.steps,
            )
            speed, memory = anyio.run(measure)
            print(json.dumps({"speed": asdict(speed)}), flush=True)
            print(json.dumps({"memory": asdict(memory)}), flush=True)
    if not options.no_batch:
        seeds = range(-(-options.episodes // len(LIBERO_OBJECT)))
        batch = run_bare(seeds=seeds, strategy=LADDER[options.strategy])
        print(json.dumps({"batch": asdict(batch)}), flush=True)


if __name__ == "__main__":
    main()
