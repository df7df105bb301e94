"""Policies that answer with several actions at once: one is used per step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from openeta_exp.errors import PolicyError

Ensemble = Literal["newest", "average", "ema"]


class ActionChunks:
    """The actions that are left of earlier answers.

    A new chunk that arrives while actions are left is blended with them where both say
    something about the same step; where the older one ends sooner, the newer one goes on.

    Attributes:
        replan_every: Steps between two answers. None waits until nothing is left, which is
            what vla-eval's servers do; then there is nothing to blend.
    """

    def __init__(
        self,
        *,
        chunk_size: int,
        ensemble: Ensemble = "newest",
        ema_alpha: float = 0.5,
        replan_every: int | None = None,
    ) -> None:
        self._chunk_size = chunk_size
        self._replan_every = replan_every
        self._left: deque[np.ndarray] = deque()
        self._since_answer = 0
        self._blend: Callable[[np.ndarray, np.ndarray], np.ndarray] = {
            "newest": lambda _, new: new,
            "average": lambda old, new: (old + new) / np.float32(2),
            "ema": lambda old, new: np.float32(ema_alpha) * new + np.float32(1 - ema_alpha) * old,
        }[ensemble]

    def clear(self) -> None:
        self._left.clear()
        self._since_answer = 0

    @property
    def needs_answer(self) -> bool:
        if not self._left:
            return True
        return self._replan_every is not None and self._since_answer >= self._replan_every

    def push(self, actions: np.ndarray) -> None:
        """Take an answer, `[chunk, dim]` float32; what exceeds the chunk size is cut off."""
        new = list(actions[: self._chunk_size])
        old = list(self._left)
        both = min(len(old), len(new))
        self._left = deque(
            [
                *(self._blend(left, right) for left, right in zip(old, new[:both], strict=False)),
                *(new[both:] or old[both:]),
            ]
        )
        self._since_answer = 0

    def pop(self) -> np.ndarray:
        """The action of this step, `[dim]` float32."""
        self._since_answer += 1
        return self._left.popleft()


def as_actions(reply: Mapping[str, Any]) -> np.ndarray:
    """`actions` of a reply as float32, `[dim]` or `[chunk, dim]`.

    Raises:
        PolicyError: There are none, or they are no numbers.
    """
    actions = reply.get("actions") if isinstance(reply, Mapping) else None
    if actions is None:
        raise PolicyError("the reply has no `actions`", code="policy_action_unusable")
    array = np.asarray(actions)
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
        raise PolicyError(
            f"actions of type {array.dtype} and shape {list(array.shape)} cannot be used",
            code="policy_action_unusable",
        )
    return array.astype(np.float32)


class ChunkedPolicy:
    """Uses up the chunks of a policy one action per step."""

    def __init__(self, policy: Any, chunks: ActionChunks) -> None:
        self._policy = policy
        self._chunks = chunks
        self.in_process: bool = policy.in_process

    def start_episode(self, task: Mapping[str, Any]) -> None:
        self._chunks.clear()
        self._policy.start_episode(task)

    def act(self, observation: dict[str, Any]) -> Mapping[str, Any]:
        if self._chunks.needs_answer:
            actions = as_actions(self._policy.act(observation))
            if actions.ndim == 1:
                return {"actions": actions}
            if not len(actions):
                raise PolicyError("the chunk is empty", code="policy_action_unusable")
            self._chunks.push(actions)
        return {"actions": self._chunks.pop()}

    def end_episode(self, result: Mapping[str, Any]) -> None:
        self._policy.end_episode(result)

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = self._policy.describe()
        return described

    def close(self) -> None:
        self._policy.close()
