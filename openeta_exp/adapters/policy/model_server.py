"""A `PredictModelServer` class as a policy in the worker process: vla-eval's models, no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from openeta_exp.adapters.policy.model_session import (
    ModelSession,
    build_model_server,
    introduction,
)


class ModelServerPolicy:
    """Hosts a model server class for one worker.

    The class is built with `params`. Its asynchronous methods run on a loop of this policy's own.
    """

    in_process = True

    def __init__(self, target: str, params: Mapping[str, Any]) -> None:
        self._server = build_model_server(target, params)
        self._loop = asyncio.new_event_loop()
        self._session = ModelSession(self._server)
        self._target, self._params = target, dict(params)

    def start_episode(self, task: Mapping[str, Any]) -> None:
        self._loop.run_until_complete(self._session.start({"task": dict(task)}))

    def act(self, observation: dict[str, Any]) -> Mapping[str, Any]:
        return self._loop.run_until_complete(self._session.answer(observation))

    def end_episode(self, result: Mapping[str, Any]) -> None:
        self._loop.run_until_complete(self._session.end(result))

    def describe(self) -> dict[str, Any]:
        told = introduction(self._server)
        return {
            "identity": {
                "kind": "model_server",
                "import": self._target,
                "params": self._params,
                **told,
            },
            "requires": list(getattr(self._server, "requires", ())) or None,
            "action_spec": told.get("action_spec"),
            "observation_spec": told.get("observation_spec"),
        }

    def close(self) -> None:
        self._loop.close()


def build(*, target: str, params: Mapping[str, Any] | None = None) -> ModelServerPolicy:
    return ModelServerPolicy(target, params or {})
