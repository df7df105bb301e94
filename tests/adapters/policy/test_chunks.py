"""Action chunks: one action per step, blended where two answers overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openeta_exp.adapters.policy.chunks import ActionChunks, Ensemble
from openeta_exp.adapters.policy.in_process import build
from openeta_exp.errors import PolicyError


def chunk(*values: float) -> np.ndarray[Any, Any]:
    return np.array([[value] for value in values], dtype=np.float32)


def popped(chunks: ActionChunks, count: int) -> list[float]:
    return [float(chunks.pop()[0]) for _ in range(count)]


@pytest.mark.parametrize(
    ("ensemble", "blended"),
    [("newest", [10, 20, 30]), ("average", [6, 11.5, 30]), ("ema", [8, 15.75, 30])],
)
def test_what_is_left_is_blended_with_a_new_answer(
    ensemble: Ensemble, blended: list[float]
) -> None:
    chunks = ActionChunks(chunk_size=3, ensemble=ensemble, ema_alpha=0.75)
    chunks.push(chunk(1, 2, 3))
    chunks.pop()
    chunks.push(chunk(10, 20, 30))

    assert popped(chunks, 3) == blended


def test_a_shorter_answer_leaves_the_rest_of_the_older_one() -> None:
    chunks = ActionChunks(chunk_size=3, ensemble="average")
    chunks.push(chunk(2, 4, 6))
    chunks.push(chunk(4))

    assert popped(chunks, 3) == [3, 4, 6]


def test_replanning_asks_before_the_chunk_is_used_up() -> None:
    policy = build(
        target="tests.catalog.toy_policies:Chunked", chunk_size=4, replan_every=2, ensemble="newest"
    )
    policy.start_episode({})
    firsts = [float(np.asarray(policy.act({})["actions"])[0]) for _ in range(5)]

    assert firsts == [100, 102, 200, 202, 300]


def test_a_new_episode_forgets_the_old_chunk() -> None:
    policy = build(target="tests.catalog.toy_policies:Chunked", chunk_size=4)
    policy.start_episode({})
    policy.act({})
    policy.start_episode({})

    assert np.asarray(policy.act({})["actions"]).tolist() == [100, 101]


def test_actions_are_single_precision_before_they_are_blended() -> None:
    policy = build(target="tests.catalog.toy_policies:Chunked", chunk_size=4)
    policy.start_episode({})

    assert np.asarray(policy.act({})["actions"]).dtype == np.float32


def test_an_empty_chunk_is_a_policy_error() -> None:
    policy = build(target="numpy:zeros_like", chunk_size=4)
    policy.start_episode({})
    with pytest.raises(PolicyError, match="empty"):
        policy.act(np.zeros((0, 2)))  # type: ignore[arg-type]
