"""One adapter in this process: built once, driven in either of its two forms."""

from __future__ import annotations

import asyncio
import difflib
import importlib
import os
import time
from collections.abc import Mapping
from typing import Any, Protocol

from openeta_exp.catalog.host.blame import ADAPTER, Blame, BrokenEpisodeError
from openeta_exp.catalog.host.recording import Recorder
from openeta_exp.catalog.host.values import Json, plain
from openeta_exp.wire.vla_eval_standin import provide

_BRIDGE = ("start_episode", "apply_action", "get_observation", "is_done", "get_result")
"""Methods of the asynchronous form that `StepBenchmark` derives from the synchronous one."""


class Driver(Protocol):
    """One episode after another on one adapter, in vla-eval's order of calls."""

    def start(self, task: dict[str, Any], recorder: Recorder) -> None: ...

    def observe(self) -> dict[str, Any]: ...

    def act(self, action: dict[str, Any]) -> None: ...

    def done(self) -> bool: ...

    def result(self) -> Mapping[str, Any]: ...

    def raw(self) -> object:
        """What `reset` or `step` last returned; the observation where there is no such thing."""
        ...

    def step_facts(self) -> dict[str, object]:
        """`info`, `reward` and `done` of the last step."""
        ...


class Adapter:
    """The user's adapter and what it says of itself.

    Raises:
        BrokenEpisodeError: It could not be imported, built or asked for its tasks.
    """

    def __init__(self, provider: str, params: Mapping[str, Any], *, render: str | None) -> None:
        self.api = provide()
        with Blame("build_adapter"):
            module, _, attribute = provider.partition(":")
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
            _configure_render(found, render)
            self.instance: Any = found(**params)
        with Blame("get_tasks"):
            self.tasks: list[dict[str, Any]] = [dict(each) for each in self.instance.get_tasks()]
            metadata = self.instance.get_metadata()
        self.metadata = metadata if isinstance(metadata, Mapping) else {}
        self.driver: Driver = (
            StepDriver(self.instance)
            if _is_step_form(self.instance)
            else AsyncDriver(self.instance)
        )

    def task(self, instruction: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The one entry of `get_tasks()` an instruction selects.

        Raises:
            BrokenEpisodeError: None or several have this name, or one contradicts `provider_ref`.
        """
        names = [str(each.get("name")) for each in self.tasks]
        chosen = [each for each in self.tasks if each.get("name") == instruction]
        if len(chosen) != 1:
            close = difflib.get_close_matches(instruction, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it offers {names}"
            raise _refused(
                f"instruction {instruction!r} is the name of {len(chosen)} entries of "
                f"get_tasks(), not of one; {hint}",
                code="task_not_found",
            )
        for key, value in facts.items():
            if key in chosen[0] and plain(chosen[0][key]) != value:
                raise _refused(
                    f"provider_ref.{key} is {value!r}, but get_tasks() says {chosen[0][key]!r}",
                    code="task_mismatch",
                )
        return chosen[0]

    def describe(self) -> dict[str, Json]:
        return {
            "api": self.api,
            "class": f"{type(self.instance).__module__}.{type(self.instance).__qualname__}",
            "form": "step" if isinstance(self.driver, StepDriver) else "async",
            "tasks": [plain(each) for each in self.tasks],
            "metadata": plain(self.metadata),
            "action_spec": _spec(self.instance, "get_action_spec"),
            "observation_spec": _spec(self.instance, "get_observation_spec"),
            "methods": sorted(
                name
                for name in dir(self.instance)
                if not name.startswith("_") and callable(getattr(self.instance, name, None))
            ),
        }

    def close(self) -> None:
        """Give back what the adapter holds, whatever it says."""
        try:
            with Blame("build_adapter"):
                self.instance.cleanup()
        except BrokenEpisodeError:
            # The process is about to drop the adapter; nobody can act on this any more.
            return


def merged(
    base: Mapping[str, Any], scenario: Mapping[str, Any], *, episode_idx: int
) -> dict[str, Any]:
    """The task an adapter is given: its own entry, the scenario, and the repeat index.

    Raises:
        BrokenEpisodeError: A scenario value contradicts the adapter's own.
    """
    clashes = sorted(
        f"{key} = {value!r} (get_tasks() says {base[key]!r})"
        for key, value in scenario.items()
        if key in base and plain(base[key]) != plain(value)
    )
    if clashes:
        raise _refused(
            f"scenario parameters contradict the task: {', '.join(clashes)}",
            code="scenario_collision",
        )
    return {"episode_idx": episode_idx, **base, **scenario}


class StepDriver:
    """Calls the synchronous methods directly, as vla-eval's bridge would."""

    def __init__(self, adapter: Any) -> None:
        from vla_eval.benchmarks.base import StepResult

        self._adapter = adapter
        self._result_class = StepResult
        self._last: Any = None
        self._task: dict[str, Any] = {}

    def start(self, task: dict[str, Any], recorder: Recorder) -> None:
        adapter = self._adapter
        # Before reset, because adapters record a first frame from inside it.
        adapter._t0, adapter._task, adapter._recorder = time.monotonic(), task, recorder
        self._task = task
        self._last = adapter._last_result = self._result_class(adapter.reset(task), 0.0, False, {})

    def observe(self) -> dict[str, Any]:
        observation: dict[str, Any] = self._adapter.make_obs(self._last.obs, self._task)
        return observation

    def act(self, action: dict[str, Any]) -> None:
        self._last = self._adapter._last_result = self._adapter.step(action)

    def done(self) -> bool:
        return bool(self._adapter.check_done(self._last))

    def result(self) -> Mapping[str, Any]:
        result: Mapping[str, Any] = self._adapter.get_step_result(self._last)
        return result

    def raw(self) -> object:
        return self._last.obs

    def step_facts(self) -> dict[str, object]:
        last = self._last
        return {"info": last.info, "reward": last.reward, "done": last.done}


class AsyncDriver:
    """Awaits the asynchronous methods on a loop that lives as long as the adapter."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._loop = asyncio.new_event_loop()
        self._observation: dict[str, Any] = {}

    def start(self, task: dict[str, Any], recorder: Recorder) -> None:
        self._loop.run_until_complete(self._adapter.start_episode(task, recorder))

    def observe(self) -> dict[str, Any]:
        self._observation = self._loop.run_until_complete(self._adapter.get_observation())
        return self._observation

    def act(self, action: dict[str, Any]) -> None:
        self._loop.run_until_complete(self._adapter.apply_action(action))

    def done(self) -> bool:
        return bool(self._loop.run_until_complete(self._adapter.is_done()))

    def result(self) -> Mapping[str, Any]:
        self._loop.run_until_complete(self._adapter.get_time())
        result: Mapping[str, Any] = self._loop.run_until_complete(self._adapter.get_result())
        return result

    def raw(self) -> object:
        return self._observation

    def step_facts(self) -> dict[str, object]:
        return {"info": {}, "reward": 0.0, "done": False}


def _is_step_form(adapter: object) -> bool:
    """Whether the asynchronous methods are the ones `StepBenchmark` provides."""
    from vla_eval.benchmarks.base import StepBenchmark

    return isinstance(adapter, StepBenchmark) and all(
        getattr(type(adapter), name) is getattr(StepBenchmark, name) for name in _BRIDGE
    )


def _configure_render(adapter_class: Any, render: str | None) -> None:
    """Choose the renderer before the simulator is imported; it cannot be changed afterwards."""
    if render is None or not hasattr(adapter_class, "configure_render"):
        return
    if render not in adapter_class.render_backends:
        raise _refused(
            f"{adapter_class.__name__} renders on {sorted(adapter_class.render_backends)}, "
            f"not on {render!r}",
            code="render_unsupported",
        )
    os.environ.update(adapter_class.configure_render(render))


def _spec(adapter: Any, method: str) -> Json:
    """A declared convention; None if the adapter declares none, which is allowed."""
    declare = getattr(adapter, method, None)
    if declare is None:
        return None
    try:
        return {key: plain(each.to_dict()) for key, each in declare().items()}
    except NotImplementedError:
        return None


def _refused(message: str, *, code: str) -> BrokenEpisodeError:
    return BrokenEpisodeError(message, failure_class=ADAPTER, code=code, error_type="CatalogError")
