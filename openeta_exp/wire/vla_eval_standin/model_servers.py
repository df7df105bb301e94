"""The model server's base classes, to be hosted in a process or behind a socket."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from openeta_exp.wire.vla_eval_standin.specs import DimSpec
from openeta_exp.wire.vla_eval_standin.types import Action, Observation


class SessionContext:
    """One connection's present episode, as a model server is told of it."""

    def __init__(
        self,
        session_id: str,
        episode_id: str,
        mode: Literal["sync", "live"] = "sync",
        eval_id: str = "",
        recording_db_path: str = "",
    ) -> None:
        self.session_id = session_id
        self.episode_id = episode_id
        self.mode = mode
        self.eval_id = eval_id
        self.recording_db_path = recording_db_path
        self._step = 0
        self._send_action_fn: Callable[[Action], Awaitable[None]] | None = None

    @property
    def step(self) -> int:
        """Observations of this episode before the present one."""
        return self._step

    @property
    def is_first(self) -> bool:
        return self._step == 0

    async def send_action(self, action: Action) -> None:
        if self._send_action_fn is None:
            raise RuntimeError("this session has no client")
        await self._send_action_fn(action)

    def _increment_step(self) -> None:
        self._step += 1


class ModelServer(ABC):
    """Answers observations with actions."""

    async def on_serve_start(self, tg: Any) -> None:  # noqa: B027
        """Before the first client; `tg` is an anyio task group that lives as long as serving."""

    @abstractmethod
    async def on_observation(self, obs: Observation, ctx: SessionContext) -> None: ...

    async def on_episode_start(self, config: dict[str, Any], ctx: SessionContext) -> None:  # noqa: B027
        """Forget the episode before."""

    async def on_episode_end(self, result: dict[str, Any], ctx: SessionContext) -> None:  # noqa: B027
        """Let go of what the episode held."""

    def get_action_spec(self) -> dict[str, DimSpec]:
        raise NotImplementedError(f"{type(self).__name__} declares no action")

    def get_observation_spec(self) -> dict[str, DimSpec]:
        raise NotImplementedError(f"{type(self).__name__} declares no observation")

    def get_observation_params(self) -> dict[str, Any]:
        return {}


class PredictModelServer(ModelServer):
    """A model with a blocking `predict` or `predict_batch`; the host does the rest."""

    def __init__(
        self,
        *,
        chunk_size: int | None = None,
        action_ensemble: str | Callable[[Any, Any], Any] = "newest",
        ema_alpha: float = 0.5,
        max_batch_size: int = 1,
        max_wait_time: float = 0.01,
        continuous_inference: bool = False,
        laas: bool = False,
        hz: float = 10.0,
    ) -> None:
        self.chunk_size = chunk_size
        self.action_ensemble = action_ensemble
        self.ema_alpha = ema_alpha
        self.max_batch_size = max_batch_size
        self.max_wait_time = max_wait_time
        self.continuous_inference = continuous_inference
        self.laas = laas
        self.hz = hz
        self._session_chunk_sizes: dict[str, int] = {}

    def predict(self, obs: Observation, ctx: SessionContext) -> Action:
        if type(self).predict_batch is PredictModelServer.predict_batch:
            raise NotImplementedError(f"{type(self).__name__} has no predict")
        return self.predict_batch([obs], [ctx])[0]

    def predict_batch(
        self, obs_batch: list[Observation], ctx_batch: list[SessionContext]
    ) -> list[Action]:
        raise NotImplementedError(f"{type(self).__name__} has no predict_batch")

    async def on_observation(self, obs: Observation, ctx: SessionContext) -> None:
        await ctx.send_action(self.predict(obs, ctx))

    async def on_episode_end(self, result: dict[str, Any], ctx: SessionContext) -> None:
        self._session_chunk_sizes.pop(ctx.session_id, None)
