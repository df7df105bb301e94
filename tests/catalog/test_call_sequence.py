"""Adapter and policy are called in vla-eval's order, no more and no less."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from openeta_exp.catalog.host.adapter import Adapter
from openeta_exp.catalog.host.episode import Episode, Report, run_episode
from openeta_exp.catalog.host.judging import Judgement, Rules
from openeta_exp.catalog.host.recording import Recorder
from openeta_exp.wire.vla_eval_standin import provide

provide()

from vla_eval.benchmarks.base import StepBenchmark, StepResult  # noqa: E402

CALLS: list[str] = []


class Spelled(StepBenchmark):  # type: ignore[misc]
    """Writes down every call; done after `last` steps."""

    def __init__(self, last: int = 99) -> None:
        super().__init__()
        self.last, self.steps = last, 0
        CALLS.append("init")

    def get_tasks(self) -> list[dict[str, Any]]:
        CALLS.append("get_tasks")
        return [{"name": "spell", "own": 1}]

    def reset(self, task: dict[str, Any]) -> Any:
        assert self._recorder is not None
        assert self._task is task
        CALLS.append(f"reset {sorted(task)}")
        self.steps = 0
        return {"n": 0}

    def make_obs(self, raw_obs: Any, task: dict[str, Any]) -> dict[str, Any]:
        assert self._task is task
        CALLS.append(f"make_obs {raw_obs['n']}")
        return dict(raw_obs)

    def step(self, action: dict[str, Any]) -> StepResult:
        assert action["actions"].dtype == np.float32
        self.steps += 1
        CALLS.append(f"step {self.steps}")
        return StepResult({"n": self.steps}, 0.0, self.steps == self.last, {})

    def check_done(self, step_result: StepResult) -> bool:
        CALLS.append("check_done")
        return bool(step_result.done)

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        CALLS.append("get_step_result")
        return {"success": step_result.done}

    def cleanup(self) -> None:
        CALLS.append("cleanup")


class Asked:
    """The policy's side of the conversation."""

    def start_episode(self, task: Mapping[str, Any]) -> None:
        CALLS.append(f"start {dict(task)}")

    def act(self, observation: dict[str, Any]) -> Mapping[str, Any]:
        CALLS.append(f"act {observation['n']}")
        return {"actions": [0.1, 0.2]}

    def end_episode(self, result: Mapping[str, Any]) -> None:
        CALLS.append(f"end {result['steps']}")


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    spelled = ModuleType("spelled_adapter")
    spelled.__dict__["Spelled"] = Spelled
    monkeypatch.setitem(sys.modules, "spelled_adapter", spelled)


def run(*, last: int = 99, max_steps: int = 2, episodes: int = 1) -> list[Report]:
    adapter = Adapter("spelled_adapter:Spelled", {"last": last}, render=None)
    rules = Rules("openeta_exp.catalog.host.predicates:from_benchmark", {}, (), (), (), {})
    reports = [
        run_episode(
            adapter,
            Asked(),
            Episode("spell", {"own": 1}, {"x": 0.5}, (), index, max_steps, 0),
            judgement=Judgement(rules),
            recorder=Recorder(session_id="s", episode_id="e", keep_video=False),
        )
        for index in range(episodes)
    ]
    adapter.close()
    return reports


def test_an_episode_that_ends_makes_no_observation_of_its_last_state() -> None:
    (report,) = run(last=2, max_steps=9)

    assert report.success
    assert [
        "init",
        "get_tasks",
        "reset ['episode_idx', 'name', 'own', 'x']",
        "make_obs 0",
        "start {'episode_idx': 0, 'name': 'spell', 'own': 1, 'x': 0.5}",
        *("act 0", "step 1", "check_done", "make_obs 1"),
        *("act 1", "step 2", "check_done"),
        "get_step_result",
        "end 2",
        "cleanup",
    ] == CALLS


def test_the_step_limit_ends_after_the_observation_as_vla_eval_does() -> None:
    (report,) = run(max_steps=2)

    assert not report.finished
    assert CALLS[-6:] == [
        "step 2",
        "check_done",
        "make_obs 2",
        "get_step_result",
        "end 2",
        "cleanup",
    ]


def test_one_adapter_serves_every_episode_with_its_index() -> None:
    run(last=1, episodes=3)

    assert CALLS.count("init") == CALLS.count("cleanup") == 1
    starts = [call for call in CALLS if call.startswith("start")]
    assert ["'episode_idx': 2" in call for call in starts] == [False, False, True]


def test_the_policy_hears_of_the_end_of_an_episode_that_broke(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fall(self: Spelled, action: dict[str, Any]) -> StepResult:
        raise ValueError("fell over")

    monkeypatch.setattr(Spelled, "step", fall)
    (report,) = run()

    assert report.failure is not None
    assert "fell over" in str(report.failure)
    assert "end 0" in CALLS
