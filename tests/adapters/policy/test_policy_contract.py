"""What every kind of policy keeps to, whoever hosts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from openeta_exp.adapters.policy import in_process, model_server, vla_eval_client
from openeta_exp.ports.policy import Policy
from tests.adapters.policy.test_model_host import MODEL, TASK, hosted, observation


@pytest.fixture(params=["callable", "chunked", "model_server", "vla_eval"])
def policy(request: pytest.FixtureRequest) -> Iterator[Policy]:
    with ExitStack() as held:
        made: Policy
        match request.param:
            case "callable":
                made = in_process.build(target="tests.catalog.toy_policies:Homing")
            case "chunked":
                made = in_process.build(target="tests.catalog.toy_policies:Chunked", chunk_size=4)
            case "model_server":
                made = model_server.build(target=MODEL)
            case _:
                made = vla_eval_client.build(url=held.enter_context(hosted()))
        yield made
        made.close()


def test_the_same_episode_gets_the_same_answers_again(policy: Policy) -> None:
    runs = []
    for _ in range(2):
        policy.start_episode(TASK)
        runs.append([np.asarray(policy.act(observation(n))["actions"]) for n in range(5)])
        policy.end_episode({"metrics": {"success": False}, "steps": 5})

    assert np.array_equal(runs[0], runs[1])


def test_an_answer_is_one_vector_of_finite_numbers(policy: Policy) -> None:
    policy.start_episode(TASK)
    actions = np.asarray(policy.act(observation(0))["actions"])

    assert actions.shape == (2,)
    assert np.isfinite(actions).all()


def test_it_says_what_it_is_before_any_episode(policy: Policy) -> None:
    described = policy.describe()

    assert isinstance(described["identity"], dict)
    assert "requires" in described


def test_an_episode_may_be_given_up_at_any_point(policy: Policy) -> None:
    policy.start_episode(TASK)
    policy.end_episode({})
    policy.start_episode(TASK)
    policy.act(observation(0))
    policy.start_episode(TASK)
    policy.act(observation(1))
    policy.end_episode({})
