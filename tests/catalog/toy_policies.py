"""Policies for the toy world, good and bad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class Homing:
    """Goes to the middle. Looks at the image for the side and at the states for the distance."""

    def __init__(self, gain: float = 5.0, camera: str = "front", state_key: str = "states") -> None:
        self.gain, self.camera, self.state_key = gain, camera, state_key

    def act(self, observation: Mapping[str, Any]) -> Any:
        image = observation.get("images", {}).get(self.camera)
        if image is None:
            image = np.zeros((8, 8, 3), np.uint8)
        state = observation.get(self.state_key)
        if state is None:
            state = np.zeros(2)
        bright = image[:, :, 0].astype(float).mean(axis=1)
        seen = 0.0 if not bright.any() else (float(np.argmax(bright)) - 3.5) * 1e-3
        return -self.gain * np.asarray(state, dtype=np.float64) - np.array([seen, 0.0])


class Handed(Homing):
    """Has another gain where an episode starts on the right."""

    def __init__(self, right: float = 5.0) -> None:
        super().__init__()
        self.right = right

    def reset(self, task: Mapping[str, Any]) -> None:
        self.gain = 0.0

    def act(self, observation: Mapping[str, Any]) -> Any:
        self.gain = self.gain or (self.right if observation["states"][0] > 0.5 else 5.0)
        return super().act(observation)


class Declared(Homing):
    """Says which keys it needs."""

    requires = ("images.front", "states")


class StateOnly:
    """Never looks at an image."""

    def act(self, observation: Mapping[str, Any]) -> Any:
        return -5.0 * np.asarray(observation["states"])


class Chunked:
    """Answers with four actions at once, numbered by how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def reset(self, task: Mapping[str, Any]) -> None:
        self.asked = 0

    def act(self, observation: Mapping[str, Any]) -> Any:
        self.asked += 1
        return np.arange(8, dtype=np.float64).reshape(4, 2) + 100 * self.asked


def still(observation: Mapping[str, Any]) -> Any:
    """Never moves."""
    return np.zeros(2)


def full_throttle(observation: Mapping[str, Any]) -> Any:
    """Everything at its limit, always."""
    return np.array([1.0, -1.0])


def not_a_number(observation: Mapping[str, Any]) -> Any:
    return np.array([np.nan, 0.0])


def matrix(observation: Mapping[str, Any]) -> Any:
    return np.zeros((3, 2))


def raising(observation: Mapping[str, Any]) -> Any:
    raise RuntimeError("out of memory")


class Growing:
    """One number more every time."""

    def __init__(self) -> None:
        self.length = 1

    def act(self, observation: Mapping[str, Any]) -> Any:
        self.length += 1
        return np.zeros(self.length)


def concatenated(observation: Mapping[str, Any]) -> Any:
    """Four numbers, where two are used."""
    return np.concatenate([-np.asarray(observation["states"])] * 2)
