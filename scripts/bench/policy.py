"""What a policy's step costs besides the policy: `python -m scripts.bench.policy [STEPS]`.

A null environment and a null policy, two 256x256 images per observation; CPU time of this process
per step, best of several rounds, because a busy machine can only make it larger. The server is a
process of its own and is not counted.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


def main(steps: int = 20_000) -> int:
    adapter = Adapter("scripts.bench.policy:NullEnvironment", {}, render=None)
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
            *("scripts.bench.policy:NullModel", "--port", "0"),
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


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
