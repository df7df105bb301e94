"""What a policy's step and a comparison cost besides the policy.

    scripts/bench policy [--steps N]              a step
    scripts/bench policy scale [--scenarios N]    a comparison: scenarios x 3 repeats x 2 policies

A step: a null environment and a null policy, two 256x256 images per observation; CPU time of this
process per step, best of several rounds, because a busy machine can only make it larger. The
server is a process of its own and is not counted.

A comparison: the whole command as typed, with episodes of one step, until MLflow has all of it.
CPU time of all its processes, because a busy machine makes the wall clock longer, and their memory
together: the largest sum of proportional set sizes, in which pages that processes share count
once, sampled ten times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from openeta_exp.adapters.policy.vla_eval_client import VlaEvalPolicy
from openeta_exp.catalog.host.adapter import Adapter
from openeta_exp.catalog.host.episode import Episode, Policy, run_episode
from openeta_exp.catalog.host.judging import Judgement, Rules
from openeta_exp.catalog.host.recording import Recorder
from openeta_exp.wire.vla_eval import ImageFormat
from openeta_exp.wire.vla_eval_standin import provide

provide()

from vla_eval.benchmarks.base import StepBenchmark, StepResult  # noqa: E402
from vla_eval.model_servers.predict import PredictModelServer  # noqa: E402

_ROOT = Path(__file__).resolve().parents[2]
_ROUNDS = 5
_IN_PROCESS_US = 10.0
_SERVER_MS = 2.0
_SCALE_S = 60.0
_SCALE_MB = 500.0
_SAMPLED_EACH_S = 0.1
_GRAIN = np.random.default_rng(0)
_OBSERVATION = {
    "images": {
        name: _GRAIN.integers(0, 256, size=(256, 256, 3), dtype=np.uint8)
        for name in ("front", "wrist")
    },
    "states": np.zeros(8, dtype=np.float32),
    "task_description": "nothing",
}
_REPLY = {"actions": np.zeros(7, dtype=np.float32)}


class NullEnvironment(StepBenchmark):  # type: ignore[misc]
    """Gives the same observation for ever."""

    def get_tasks(self) -> list[dict[str, Any]]:
        return [{"name": "nothing"}]

    def reset(self, task: dict[str, Any]) -> Any:
        return _OBSERVATION

    def step(self, action: dict[str, Any]) -> StepResult:
        return StepResult(_OBSERVATION, 0.0, False, {})

    def make_obs(self, raw_obs: Any, task: dict[str, Any]) -> Any:
        return raw_obs

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        return {"success": False}


class NullPolicy:
    """Gives the same action for ever."""

    in_process = True

    def start_episode(self, task: Mapping[str, Any]) -> None:
        """Nothing to forget."""

    def act(self, observation: dict[str, Any]) -> Mapping[str, Any]:
        return _REPLY

    def end_episode(self, result: Mapping[str, Any]) -> None:
        """Nothing to let go."""


class NullModel(PredictModelServer):  # type: ignore[misc]
    """The same, behind a socket."""

    def predict(self, obs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return dict(_REPLY)


class OneStep(StepBenchmark):  # type: ignore[misc]
    """Ends with its first step, and is solved if the action is positive."""

    def get_tasks(self) -> list[dict[str, Any]]:
        return [{"name": "nothing"}]

    def reset(self, task: dict[str, Any]) -> Any:
        return float(task["x"])

    def make_obs(self, raw_obs: Any, task: dict[str, Any]) -> Any:
        return {"states": np.array([raw_obs], dtype=np.float32), "task_description": task["name"]}

    def step(self, action: dict[str, Any]) -> StepResult:
        positive = float(action["actions"][0]) > 0
        return StepResult(1.0, float(positive), True, {"success": positive})

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        return {"success": step_result.info["success"]}


class Threshold:
    """Positive where the state, taken around a circle, is above a threshold."""

    requires = ("states",)

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def act(self, observation: Mapping[str, Any]) -> Any:
        around = float(observation["states"][0]) * 3.7 % 1.0
        return np.array([around - self.threshold], dtype=np.float32)


CATALOG: Mapping[str, Any] = {
    "scenes.yaml": {
        "scenes": [
            {
                "id": "null-scene",
                "engine": "none",
                "engine_version": "1",
                "external": {"provider": "scripts.benchmarks.policy:OneStep", "params": {}},
            }
        ]
    },
    "tasks.yaml": {
        "tasks": [
            {
                "id": "nothing",
                "scene": "null-scene",
                "instruction": "nothing",
                "predicate": "refractal.predicates:from_benchmark",
                "max_steps": 1,
            }
        ]
    },
}


def scale(scenarios: int) -> int:
    """A comparison from the command line to its report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sets = {
            "id": "line",
            "scene": "null-scene",
            "generator": "refractal.generators:linspace_grid",
            "generator_seed": 0,
            "params": {"x": {"range": [0, 10], "steps": scenarios}},
        }
        for file, content in {**CATALOG, "scenarios.yaml": {"scenario_sets": [sets]}}.items():
            (folder / file).write_text(json.dumps(content), encoding="utf-8")
        said = folder / "said.txt"
        began_s = time.monotonic()
        with said.open("wb") as output:
            command = subprocess.Popen(
                [
                    *(sys.executable, "-m", "openeta_exp", "command=compare"),
                    *(f"catalog.path={folder}", "catalog.repeats=3"),
                    *("policy@a=scripts.benchmarks.policy:Threshold", "a.params={threshold: 0.5}"),
                    *("policy@b=scripts.benchmarks.policy:Threshold", "b.params={threshold: 0.6}"),
                    f"output_root={folder}/outputs",
                ],
                cwd=_ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        peaks_mb = [0.0]
        watching = threading.Thread(target=watch, args=(command.pid, peaks_mb))
        watching.start()
        _, status, used = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
        watching.join()
        wall_s = time.monotonic() - began_s
        if "\ntracked " not in said.read_text(encoding="utf-8"):
            raise RuntimeError(f"MLflow has not got all of it: {said.read_text(encoding='utf-8')}")
        result = (
            folder / "outputs" / "experiments" / "experiment" / "comparison" / "comparison.json"
        )
        told = json.loads(result.read_text(encoding="utf-8"))
    (contrast,) = told["contrasts"]
    if contrast["standing"] != "regressed" or contrast["missing"]:
        raise RuntimeError(f"the comparison went wrong: {contrast['standing']}")
    cpu_s = used.ru_utime + used.ru_stime
    name = f"{scenarios:,} scenarios x 3 x 2"
    report(f"{name}: all processes", cpu_s, "s", limit=_SCALE_S)
    report("an episode of it", 1e3 * cpu_s / (6 * scenarios), "ms")
    print(f"{'wall clock, which other work makes longer':<40} {wall_s:9.2f} s")
    print(f"{'memory, all processes':<40} {peaks_mb[0]:10.0f} MB (at most {_SCALE_MB:g})")
    return int(cpu_s > _SCALE_S or peaks_mb[0] > _SCALE_MB)


def watch(pid: int, peaks_mb: list[float]) -> None:
    """Keep the largest memory of a process and everything below it, until it is gone."""
    while (now_mb := sum(map(_memory_mb, _family(pid)))) > 0:
        peaks_mb[0] = max(peaks_mb[0], now_mb)
        time.sleep(_SAMPLED_EACH_S)


def _family(pid: int) -> Iterator[int]:
    yield pid
    # A process may end at any moment.
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                yield from _family(int(child))


def _memory_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def step(steps: int) -> int:
    adapter = Adapter("scripts.benchmarks.policy:NullEnvironment", {}, render=None)
    bare_s = min(bare_loop(adapter, steps) for _ in range(_ROUNDS))
    here_s = min(episode(adapter, NullPolicy(), steps) for _ in range(_ROUNDS))
    in_process_us = (here_s - bare_s) * 1e6
    report("in process: engine per step", in_process_us, "us", limit=_IN_PROCESS_US)
    raw_ms = served(adapter, "raw", steps // 40) * 1e3
    report("server, raw frames: client per step", raw_ms, "ms", limit=_SERVER_MS)
    png_ms = served(adapter, "png", max(steps // 1000, 5)) * 1e3
    report("server, PNG frames: client per step", png_ms, "ms")
    return int(in_process_us > _IN_PROCESS_US or raw_ms > _SERVER_MS)


def bare_loop(adapter: Adapter, steps: int) -> float:
    """CPU seconds per step of the calls that any driver has to make."""
    instance, policy = adapter.instance, NullPolicy()
    observation = instance.reset({})
    began_s = time.process_time()
    for _ in range(steps):
        last = instance.step(policy.act(observation))
        instance.check_done(last)
        observation = instance.make_obs(last.obs, {})
    return (time.process_time() - began_s) / steps


def episode(adapter: Adapter, policy: Policy, steps: int) -> float:
    """CPU seconds per step of one whole episode."""
    rules = Rules("openeta_exp.catalog.host.predicates:from_benchmark", {}, (), (), (), {})
    began_s = time.process_time()
    outcome = run_episode(
        adapter,
        policy,
        Episode("nothing", {}, {}, (), 0, steps, 0),
        judgement=Judgement(rules),
        recorder=Recorder(session_id="bench", episode_id="bench", keep_video=False),
    )
    if outcome.failure is not None or outcome.steps != steps:
        raise RuntimeError(f"the episode broke after {outcome.steps} steps: {outcome.failure}")
    return (time.process_time() - began_s) / steps


def served(adapter: Adapter, images: ImageFormat, steps: int) -> float:
    with serving() as url:
        policy = VlaEvalPolicy(url, images=images)
        seconds = min(episode(adapter, policy, steps) for _ in range(_ROUNDS))
        policy.close()
    return seconds


@contextmanager
def serving() -> Iterator[str]:
    """The null model in a process of its own."""
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "openeta_exp.adapters.policy.model_host"),
            *("scripts.benchmarks.policy:NullModel", "--port", "0"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


def report(name: str, value: float, unit: str, *, limit: float | None = None) -> None:
    bound = "" if limit is None else f" (at most {limit:g})"
    print(f"{name:<40} {value:10.2f} {unit} CPU{bound}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="?", choices=("step", "scale"), default="step")
    parser.add_argument("--steps", type=int, default=20_000, help="of `step`")
    parser.add_argument("--scenarios", type=int, default=1000, help="of `scale`")
    options = parser.parse_args()
    return step(options.steps) if options.what == "step" else scale(options.scenarios)


if __name__ == "__main__":
    sys.exit(main())
