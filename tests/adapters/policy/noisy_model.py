"""A model server for the toy world; runs in whatever environment has vla-eval, or our stand-in."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from vla_eval.model_servers.predict import PredictModelServer


class NoisyHoming(PredictModelServer):  # type: ignore[misc]
    """Goes to the middle with noise that depends on the episode; float64, in chunks if asked."""

    def __init__(self, gain: float = 2.0, **options: Any) -> None:
        super().__init__(**options)
        self.gain = gain
        self.draws = np.random.default_rng(0)

    async def on_episode_start(self, config: dict[str, Any], ctx: Any) -> None:
        task = config["task"]
        self.draws = np.random.default_rng(int(1000 * (task["x"] + task["y"] + 2)))
        await super().on_episode_start(config, ctx)

    def predict(self, obs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        brightness = float(obs["images"]["front"].mean()) / 2550
        length = self.chunk_size or 1
        noise = self.draws.normal(0, 0.05, size=(length, 2)) + brightness / 3
        actions = -self.gain * np.asarray(obs["states"], dtype=np.float64) + noise
        return {"actions": actions[0] if self.chunk_size is None else actions}


if __name__ == "__main__":
    from vla_eval.model_servers.serve import serve

    chunk = int(sys.argv[2])
    serve(NoisyHoming(chunk_size=chunk or None), host="127.0.0.1", port=int(sys.argv[1]))
