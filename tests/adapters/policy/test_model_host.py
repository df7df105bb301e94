"""Our host of a model server class, asked by our client over a real socket."""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from openeta_exp.adapters.policy.model_host import serve_model
from openeta_exp.adapters.policy.model_server import build as in_process
from openeta_exp.adapters.policy.model_session import build_model_server
from openeta_exp.adapters.policy.vla_eval_client import VlaEvalPolicy
from openeta_exp.errors import PolicyError

MODEL = "tests.adapters.policy.noisy_model:NoisyHoming"
TASK = {"x": 0.25, "y": 0.5}


@contextmanager
def hosted(target: str = MODEL, **params: Any) -> Iterator[str]:
    loop = asyncio.new_event_loop()
    ports: list[int] = []
    listening = threading.Event()

    def ready(port: int) -> None:
        ports.append(port)
        listening.set()

    model = build_model_server(target, params)
    task = loop.create_task(serve_model(model, host="127.0.0.1", port=0, ready=ready))

    def serve() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=serve)
    thread.start()
    listening.wait(10)
    try:
        yield f"ws://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(timeout=10)
        loop.close()


def observation(step: int) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    return {
        "images": {"front": rng.integers(0, 256, size=(8, 8, 3), dtype=np.uint8)},
        "states": rng.normal(size=2).astype(np.float32),
        "task_description": "reach the middle",
    }


@pytest.mark.parametrize("chunk_size", [None, 3])
def test_a_hosted_model_answers_like_the_model_in_this_process(chunk_size: int | None) -> None:
    with hosted(chunk_size=chunk_size) as url:
        policies = (
            VlaEvalPolicy(url),
            in_process(target=MODEL, params={"chunk_size": chunk_size}),
        )
        answers = []
        for policy in policies:
            policy.start_episode(TASK)
            answers.append([np.asarray(policy.act(observation(n))["actions"]) for n in range(7)])
            policy.end_episode({})
            policy.close()

    assert np.array_equal(answers[0], answers[1])
    assert answers[0][0].dtype == np.float32


def test_a_model_that_raises_costs_an_episode_and_the_host_goes_on() -> None:
    with hosted() as url:
        policy = VlaEvalPolicy(url)
        policy.start_episode(TASK)
        with pytest.raises(PolicyError, match="KeyError: 'images'"):
            policy.act({"states": np.zeros(2)})
        policy.start_episode(TASK)
        assert np.asarray(policy.act(observation(0))["actions"]).shape == (2,)


def test_a_start_the_model_refuses_is_reported_with_its_reason() -> None:
    with hosted() as url:
        policy = VlaEvalPolicy(url)
        policy.start_episode({"no": "position"})
        with pytest.raises(PolicyError, match="KeyError: 'x'"):
            policy.act(observation(0))


def test_the_host_introduces_its_model_and_says_that_it_is_up() -> None:
    with hosted() as url:
        with urllib.request.urlopen(url.replace("ws://", "http://") + "/health") as reply:
            assert reply.status == 200
        assert VlaEvalPolicy(url).describe()["identity"]["model_server"] == "NoisyHoming"


def test_two_clients_do_not_share_an_episode() -> None:
    with hosted(chunk_size=3) as url:
        first, second = VlaEvalPolicy(url), VlaEvalPolicy(url)
        first.start_episode(TASK)
        second.start_episode({"x": 0.0, "y": 0.0})
        own = np.asarray(first.act(observation(0))["actions"])
        other = np.asarray(second.act(observation(0))["actions"])

    assert not np.array_equal(own, other)
