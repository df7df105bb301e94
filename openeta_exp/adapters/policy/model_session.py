"""One session with a model server class: what an observation is answered with, whoever asks."""

from __future__ import annotations

import asyncio
import importlib
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np

from openeta_exp.adapters.policy.chunks import ActionChunks, as_actions
from openeta_exp.adapters.policy.in_process import import_object
from openeta_exp.errors import PolicyError
from openeta_exp.wire.vla_eval_standin import provide


def build_model_server(target: str, params: Mapping[str, Any]) -> Any:
    """An instance of the class an import string names.

    `vla_eval.model_servers` is the installed package's, or our stand-in for it.
    """
    provide()
    return import_object(target)(**params)


class ModelSession:
    """A sequence of episodes of one client. Blocking `predict` calls are made directly.

    A server that overrides `on_observation` answers through it; there the server decides about
    chunks. Otherwise `predict` is asked when no action is left, as vla-eval's own host does.

    Args:
        in_thread: Ask `predict` in a thread, so that a slow model keeps nobody else waiting.
    """

    def __init__(self, server: Any, *, in_thread: bool = False) -> None:
        self._server = server
        self._in_thread = in_thread
        self._session_id = str(uuid.uuid4())
        self._context: Any = None
        self._chunks: ActionChunks | None = None
        self._sent: list[Mapping[str, Any]] = []
        base: Any = getattr(importlib.import_module("vla_eval.model_servers.predict"), _PREDICT)
        self._predicts = isinstance(server, base) and (
            type(server).on_observation is base.on_observation
        )

    async def start(self, config: Mapping[str, Any]) -> None:
        context_class: Any = importlib.import_module("vla_eval.model_servers.base").SessionContext
        self._context = context_class(self._session_id, str(uuid.uuid4()))
        self._context._send_action_fn = self._take
        self._chunks = None
        await self._server.on_episode_start(dict(config), self._context)

    async def answer(self, observation: dict[str, Any]) -> Mapping[str, Any]:
        """The action for this observation.

        Raises:
            PolicyError: No episode was started, or the server gave no usable action.
        """
        if self._context is None:
            raise PolicyError("an observation came before an episode", code="policy_act_failed")
        if self._predicts:
            reply = await self._predicted(observation)
        else:
            self._sent.clear()
            await self._server.on_observation(observation, self._context)
            if len(self._sent) != 1:
                raise PolicyError(
                    f"{len(self._sent)} actions were sent for one observation",
                    code="policy_act_failed",
                )
            reply = self._sent[0]
        self._context._increment_step()
        return reply

    async def end(self, result: Mapping[str, Any]) -> None:
        if self._context is not None:
            context, self._context = self._context, None
            await self._server.on_episode_end(dict(result), context)

    async def _predicted(self, observation: dict[str, Any]) -> Mapping[str, Any]:
        if self._chunks is None or self._chunks.needs_answer:
            reply = await self._ask(observation)
            if not isinstance(reply, Mapping) or reply.get("actions") is None:
                return dict(reply)
            actions = as_actions(reply)
            chunk_size = self._chunk_size()
            if chunk_size is None or actions.ndim == 1:
                return {**reply, "actions": actions}
            if not len(actions):
                raise PolicyError("the chunk is empty", code="policy_action_unusable")
            self._chunks = ActionChunks(chunk_size=chunk_size)
            self._chunks.push(actions)
        action: np.ndarray = self._chunks.pop()
        return {"actions": action}

    async def _ask(self, observation: dict[str, Any]) -> Any:
        if self._in_thread:
            return await asyncio.to_thread(self._server.predict, observation, self._context)
        return self._server.predict(observation, self._context)

    def _chunk_size(self) -> int | None:
        per_session = getattr(self._server, "_session_chunk_sizes", {})
        size: int | None = per_session.get(self._session_id, self._server.chunk_size)
        return size

    async def _take(self, action: Mapping[str, Any]) -> None:
        self._sent.append(action)


_PREDICT = "PredictModelServer"


def introduction(server: Any) -> dict[str, Any]:
    """What a server says of itself: class, and the conventions it declares, if any."""
    told: dict[str, Any] = {"model_server": type(server).__name__, "capabilities": {}}
    params = server.get_observation_params()
    if params:
        told["observation_params"] = dict(params)
    for name in ("action_spec", "observation_spec"):
        try:
            spec = getattr(server, f"get_{name}")()
        except NotImplementedError:
            continue
        if spec:
            told[name] = {key: each.to_dict() for key, each in spec.items()}
    return told
