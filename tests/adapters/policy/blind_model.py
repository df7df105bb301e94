"""Model servers that use a part of what they are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from vla_eval.model_servers.predict import PredictModelServer


class StateModel(PredictModelServer):  # type: ignore[misc]
    """Reads a camera nobody sends, and goes on with a black image."""

    def predict(self, obs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        image = obs["images"].get("primary", np.zeros((8, 8, 3)))
        return {"actions": -3.0 * np.asarray(obs["states"]) + image.mean()}


class ImageModel(PredictModelServer):  # type: ignore[misc]
    """Reads `state`, where adapters send `states`."""

    def predict(self, obs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        state = np.asarray(obs.get("state", np.zeros(2)))
        return {"actions": state + obs["images"]["front"].mean() / 255}
