"""Adapters over a world of three numbers: quick, and with every mistake an adapter can make."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

from openeta_exp.wire.vla_eval_standin import provide

provide()

from vla_eval.benchmarks.base import Benchmark, StepBenchmark, StepResult  # noqa: E402


class Reach(StepBenchmark):  # type: ignore[misc]
    """A point starts at `x`, `y` and must come within 0.05 of the origin.

    Observation: an 8x8 image with a bright pixel row and column for the point, and `states`.
    """

    def __init__(self, camera: str = "front", send_state: bool = True) -> None:
        super().__init__()
        self.camera = camera
        self.send_state = send_state
        self.strength = {"motor": 1.0}
        self.cleanups = 0
        self.point = np.zeros(2)

    def get_tasks(self) -> list[dict[str, Any]]:
        return [
            {"name": "reach the middle", "suite": "toy", "task_id": 0},
            {"name": "stay away", "suite": "toy", "task_id": 1},
        ]

    def reset(self, task: dict[str, Any]) -> Any:
        self.point = np.array([task["x"], task["y"]], dtype=np.float64)
        self.strength = {"motor": 1.0}
        return self._raw()

    def _raw(self) -> dict[str, Any]:
        image = np.zeros((8, 8, 3), dtype=np.uint8)
        row, column = np.clip((self.point + 1) * 4, 0, 7).astype(int)
        image[row, :, 0] = 255
        image[:, column, 1] = 255
        return {"image": image, "point": self.point.copy()}

    def make_obs(self, raw_obs: Any, task: dict[str, Any]) -> dict[str, Any]:
        sent: dict[str, Any] = {
            "images": {self.camera: raw_obs["image"]},
            "task_description": task["name"],
        }
        if self.send_state:
            sent["states"] = raw_obs["point"].astype(np.float32)
        return sent

    def step(self, action: dict[str, Any]) -> StepResult:
        move = np.clip(action["actions"][:2], -1, 1) * 0.1 * self.strength["motor"]
        self.point = self.point + move
        reached = bool(np.abs(self.point).max() < 0.05)
        self._recorder.record_step(x=float(self.point[0]), move=move)
        facts = {"reached": reached, "distance": float(np.abs(self.point).max())}
        return StepResult(self._raw(), float(reached), reached, facts)

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        return {
            "success": step_result.info["reached"],
            "final_distance": step_result.info["distance"],
            "where": self.point,
        }

    def get_metadata(self) -> dict[str, Any]:
        return {"max_steps": 40}

    def scale_actuator(self, name: str, factor: float) -> None:
        self.strength[name] *= factor

    def get_actuator_limit(self, name: str) -> float:
        return self.strength[name]

    def get_body_pose(self, name: str) -> list[float]:
        return [*self.point, 0.0]

    def set_body_pose(self, name: str, pose: list[float]) -> None:
        self.point = np.array(pose[:2])

    def apply_force(self, name: str, wrench: list[float]) -> None:
        self.wrench = wrench
        self.point = self.point + np.array(wrench[:2])

    def get_applied_wrench(self, name: str) -> list[float]:
        return getattr(self, "wrench", [0.0] * 6)

    def alternative(self, kind: str, name: str) -> Any:
        return f"{kind}:{name}"


class Forgiving(Reach):
    """Hides a missing parameter behind a default."""

    def reset(self, task: dict[str, Any]) -> Any:
        return super().reset({**task, "x": task.get("x", 0.5), "y": task.get("y", 0.5)})


class Plain(Reach):
    """Hides it too, and copies nothing, so that every key can be followed."""

    def reset(self, task: dict[str, Any]) -> Any:
        self.point = np.array([task.get("x", 0.5), task.get("y", 0.5)])
        return self._raw()


class Unseeded(Reach):
    """Starts somewhere else every time."""

    def reset(self, task: dict[str, Any]) -> Any:
        super().reset(task)
        self.point = self.point + np.random.default_rng().uniform(-0.1, 0.1, size=2)
        return self._raw()


class GloballySeeded(Reach):
    """Draws from the generators every module shares."""

    def reset(self, task: dict[str, Any]) -> Any:
        super().reset(task)
        self.point = self.point + np.random.uniform(-0.1, 0.1, size=2) + random.random() / 100
        return self._raw()


class Inert(Reach):
    """Reads a parameter and does nothing with it."""

    def reset(self, task: dict[str, Any]) -> Any:
        assert task["y"] is not None
        return super().reset({"x": task["x"], "y": 0.5})


class Writing(Reach):
    """Writes back into the task."""

    def reset(self, task: dict[str, Any]) -> Any:
        task["x"] = task["x"] + 0.1
        return super().reset(task)


class Solved(Reach):
    """Is solved before anything happens."""

    def reset(self, task: dict[str, Any]) -> Any:
        return super().reset({**task, "x": 0.01 * task["x"], "y": 0.01 * task["y"]})

    def check_done(self, step_result: StepResult) -> bool:
        return bool(np.abs(self.point).max() < 0.05)

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        return {"success": bool(np.abs(self.point).max() < 0.05)}


class Breaking(Reach):
    """Breaks where it is told to: `at` is a method, `how` what happens there."""

    def __init__(self, at: str = "reset", how: str = "raise") -> None:
        super().__init__()
        self.at, self.how = at, how

    def _break(self, where: str) -> None:
        if where != self.at:
            return
        if self.how == "raise":
            raise ValueError("the simulator is broken")
        if self.how == "exit":
            print("last words", flush=True)
            os._exit(7)
        while True:
            pass

    def reset(self, task: dict[str, Any]) -> Any:
        self._break("reset")
        return super().reset(task)

    def step(self, action: dict[str, Any]) -> StepResult:
        self._break("step")
        return super().step(action)

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        self._break("result")
        return {} if self.at == "verdict" else super().get_step_result(step_result)


class Asynchronous(Benchmark):  # type: ignore[misc]
    """The same world in the asynchronous form."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Reach()

    def get_tasks(self) -> list[dict[str, Any]]:
        return self.inner.get_tasks()

    async def start_episode(self, task: dict[str, Any], recorder: Any = None) -> None:
        await self.inner.start_episode(task, recorder)

    async def apply_action(self, action: dict[str, Any]) -> None:
        await self.inner.apply_action(action)

    async def get_observation(self) -> Any:
        return await self.inner.get_observation()

    async def is_done(self) -> bool:
        done: bool = await self.inner.is_done()
        return done

    async def get_time(self) -> float:
        time_s: float = await self.inner.get_time()
        return time_s

    async def get_result(self) -> Any:
        return await self.inner.get_result()


class Marked(Reach):
    """Leaves a mark in a file when it is built and when it is cleaned up."""

    def __init__(self, marks: str) -> None:
        super().__init__()
        self.marks = marks
        self._mark("built")

    def get_tasks(self) -> list[dict[str, Any]]:
        return [{"name": f"goal {index}", "task_id": index} for index in range(3)] + [
            {"name": "reach the middle", "task_id": 3}
        ]

    def reset(self, task: dict[str, Any]) -> Any:
        self._mark(f"reset {task['name']} {task['episode_idx']}")
        return super().reset(task)

    def cleanup(self) -> None:
        self._mark("cleaned up")

    def _mark(self, what: str) -> None:
        with open(self.marks, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {what}\n")


class Filming(Reach):
    """Records video."""

    def step(self, action: dict[str, Any]) -> StepResult:
        result = super().step(action)
        self._recorder.record_video(np.kron(result.obs["image"], np.ones((8, 8, 1), np.uint8)))
        return result


class Empty(StepBenchmark):  # type: ignore[misc]
    """Does nothing at all and succeeds at once."""

    def get_tasks(self) -> list[dict[str, Any]]:
        return [{"name": "nothing"}]

    def reset(self, task: dict[str, Any]) -> Any:
        return {"n": task["n"]}

    def make_obs(self, raw_obs: Any, task: dict[str, Any]) -> dict[str, Any]:
        return dict(raw_obs)

    def step(self, action: dict[str, Any]) -> StepResult:
        return StepResult({"n": 0}, 1.0, True, {})

    def get_step_result(self, step_result: StepResult) -> dict[str, Any]:
        return {"success": True}


class Hidden(Reach):
    """Has a parameter that shows only once the world moves."""

    def reset(self, task: dict[str, Any]) -> Any:
        self.friction = task["y"]
        return super().reset({"x": task["x"], "y": 0.5})

    def step(self, action: dict[str, Any]) -> StepResult:
        action = {"actions": action["actions"] * self.friction}
        return super().step(action)
