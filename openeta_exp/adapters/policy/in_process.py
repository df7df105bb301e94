"""A policy as a Python callable in the worker process: no socket, no copy."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from openeta_exp.adapters.policy.chunks import ActionChunks, ChunkedPolicy, Ensemble
from openeta_exp.errors import PolicyError
from openeta_exp.wire.vla_eval_standin import provide


class CallablePolicy:
    """Calls a function, or an object with `reset` and `act`.

    The import string names a function `act(observation)`, or a class or factory. A class is built
    with `params`; its instance is called, or its `act` is. `reset(task)` is called at the start
    of every episode if there is one. `requires`, `weights_digest` and `version` are read if
    they exist.
    """

    in_process = True

    def __init__(
        self,
        import_string: str,
        params: Mapping[str, Any],
        *,
        requires: Sequence[str] | None = None,
    ) -> None:
        # A policy may live next to an adapter, or be made from a model server's parts.
        provide()
        target = import_object(import_string)
        if isinstance(target, type) or params:
            target = target(**params)
        self._target = target
        self._act = target.act if hasattr(target, "act") else target
        if not callable(self._act):
            raise PolicyError(f"{import_string} is neither a function nor has it `act`")
        self._reset = getattr(target, "reset", None)
        self._import_string = import_string
        self._params = dict(params)
        self._requires = requires if requires is not None else getattr(target, "requires", None)

    def start_episode(self, task: Mapping[str, Any]) -> None:
        if self._reset is not None:
            self._reset(task)

    def act(self, observation: dict[str, Any]) -> Mapping[str, Any]:
        reply = self._act(observation)
        return reply if isinstance(reply, Mapping) else {"actions": reply}

    def end_episode(self, result: Mapping[str, Any]) -> None:
        finish = getattr(self._target, "end", None)
        if finish is not None:
            finish(result)

    def describe(self) -> dict[str, Any]:
        requires = self._requires
        return {
            "identity": {
                "kind": "in_process",
                "import": self._import_string,
                "params": self._params,
                **{
                    name: str(getattr(self._target, name))
                    for name in ("weights_digest", "version")
                    if hasattr(self._target, name)
                },
            },
            "requires": None if requires is None else [str(each) for each in requires],
        }

    def close(self) -> None:
        close = getattr(self._target, "close", None)
        if close is not None:
            close()


def import_object(import_string: str) -> Any:
    module, _, attribute = import_string.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def build(
    *,
    target: str,
    params: Mapping[str, Any] | None = None,
    chunk_size: int | None = None,
    ensemble: Ensemble = "newest",
    ema_alpha: float = 0.5,
    replan_every: int | None = None,
    requires: Sequence[str] | None = None,
) -> CallablePolicy | ChunkedPolicy:
    """The policy an import string names; with `chunk_size` its answers are used up in order.

    Args:
        requires: Observation keys it needs, dotted, if it does not say so itself.
    """
    policy = CallablePolicy(target, params or {}, requires=requires)
    if chunk_size is None:
        return policy
    return ChunkedPolicy(
        policy,
        ActionChunks(
            chunk_size=chunk_size,
            ensemble=ensemble,
            ema_alpha=ema_alpha,
            replan_every=replan_every,
        ),
    )
