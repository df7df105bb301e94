"""The adapter's base classes: an asynchronous contract and a synchronous way to meet it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from openeta_exp.wire.vla_eval_standin.recording import EpisodeRecorder, NullEpisodeRecorder
from openeta_exp.wire.vla_eval_standin.specs import DimSpec
from openeta_exp.wire.vla_eval_standin.types import Action, EpisodeResult, Observation, Task


@dataclass
class StepResult:
    """What one step of an environment gave."""

    obs: Any
    reward: float
    done: bool
    info: dict[str, Any]


def repeat_last_hold(last_action: Action | None, action_dim: int) -> Action:
    """The last action again, or zeros before the first: a hold for absolute targets."""
    return last_action or {"actions": np.zeros(action_dim, dtype=np.float32)}


class Benchmark(ABC):
    """What a runner may ask of an environment."""

    render_backends: ClassVar[frozenset[str]] = frozenset({"gpu"})

    @classmethod
    def configure_render(cls, mode: str) -> dict[str, str]:
        if mode == "gpu":
            return {}
        raise NotImplementedError(f"{cls.__name__} does not say how to render with {mode!r}")

    @abstractmethod
    def get_tasks(self) -> list[Task]: ...

    @abstractmethod
    async def start_episode(self, task: Task, recorder: EpisodeRecorder | None = None) -> None: ...

    @abstractmethod
    async def apply_action(self, action: Action) -> None: ...

    @abstractmethod
    async def get_observation(self) -> Observation: ...

    @abstractmethod
    async def is_done(self) -> bool: ...

    @abstractmethod
    async def get_time(self) -> float: ...

    @abstractmethod
    async def get_result(self) -> EpisodeResult: ...

    def get_action_spec(self) -> dict[str, DimSpec]:
        raise NotImplementedError(f"{type(self).__name__} declares no action")

    def get_observation_spec(self) -> dict[str, DimSpec]:
        raise NotImplementedError(f"{type(self).__name__} declares no observation")

    def get_metric_keys(self) -> dict[str, str]:
        return {"success": "mean"}

    def get_metadata(self) -> dict[str, Any]:
        return {}

    def get_hold_action(self, last_action: Action | None) -> Action:
        raise NotImplementedError(f"{type(self).__name__} declares no hold")

    def cleanup(self) -> None:  # noqa: B027 - optional
        """Give back what the environment holds."""

    def render(self) -> np.ndarray[Any, Any] | None:
        return None


class StepBenchmark(Benchmark, ABC):
    """An environment that is stepped: five methods, and the contract above follows."""

    def __init__(self) -> None:
        super().__init__()
        self._last_result = StepResult(obs=None, reward=0.0, done=False, info={})
        self._task: Task = {}
        self._t0 = 0.0

    @abstractmethod
    def reset(self, task: Task) -> Any: ...

    @abstractmethod
    def step(self, action: Action) -> StepResult: ...

    @abstractmethod
    def make_obs(self, raw_obs: Any, task: Task) -> Observation: ...

    @abstractmethod
    def get_step_result(self, step_result: StepResult) -> EpisodeResult: ...

    def check_done(self, step_result: StepResult) -> bool:
        return step_result.done

    async def start_episode(self, task: Task, recorder: EpisodeRecorder | None = None) -> None:
        self._t0, self._task = time.monotonic(), task
        self._recorder = recorder or NullEpisodeRecorder()
        self._last_result = StepResult(obs=self.reset(task), reward=0.0, done=False, info={})

    async def apply_action(self, action: Action) -> None:
        self._last_result = self.step(action)

    async def get_observation(self) -> Observation:
        return self.make_obs(self._last_result.obs, self._task)

    async def is_done(self) -> bool:
        return self.check_done(self._last_result)

    async def get_time(self) -> float:
        return time.monotonic() - self._t0

    async def get_result(self) -> EpisodeResult:
        return self.get_step_result(self._last_result)
