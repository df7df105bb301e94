"""A whole run against policy servers that fail on the way: partial, and never wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.stop import FailureClass
from openeta_exp.ports.policy import PolicyRecipe
from openeta_exp.wire.vla_eval import Frame
from tests.adapters.policy.hostile_server import Misbehaviour, Session, serving
from tests.catalog.catalogs import ARM, running, toy

pytestmark = pytest.mark.anyio


async def run_against(directory: Path, misbehave: Misbehaviour) -> list[EpisodeOutcome]:
    expansion = toy(
        directory,
        task={"max_steps": 4},
        scenarios={
            "params": {
                "x": {"range": [0.2, 0.9], "steps": 8},
                "y": {"range": [0.2, 0.9], "steps": 5},
            }
        },
    )
    with serving(misbehave) as (url, _):
        recipe = PolicyRecipe(
            factory="openeta_exp.adapters.policy.vla_eval_client:build",
            arguments={"url": url, "connect_timeout_s": 2.0, "act_timeout_s": 1.0},
        )
        async with running(expansion) as runner:
            return [
                await runner.run_episode(spec, policy=recipe, arm=ARM)
                for spec in expansion.manifest.episodes
            ]


def codes(outcomes: list[EpisodeOutcome]) -> list[str]:
    return [each.code if isinstance(each, EpisodeFailure) else "result" for each in outcomes]


def answering(actions: object, *, odd: object = None) -> Misbehaviour:
    """Answers with `actions`, and with `odd` in every fifth episode."""

    def answer(session: Session, frame: Frame) -> bool:
        if frame.type != "observation":
            return False
        other = odd is not None and session.state.episodes % 5 == 0
        session.send("action", {"actions": odd if other else actions}, frame.seq)
        return True

    return answer


async def test_a_server_that_dies_after_5_of_40_leaves_5_results(tmp_path: Path) -> None:
    alive = answering(np.zeros(2))

    def mortal(session: Session, frame: Frame) -> bool:
        if session.state.episodes > 5:
            session.connection.close_socket()
            return True
        return alive(session, frame)

    outcomes = await run_against(tmp_path, mortal)

    assert [isinstance(each, EpisodeResult) for each in outcomes] == [True] * 5 + [False] * 35
    assert {each.failure_class for each in outcomes[5:]} == {FailureClass.POLICY_SERVER}


@pytest.mark.parametrize("odd", [np.array([np.nan, 0.0]), np.zeros(3), np.zeros((4, 2)), "left"])
async def test_actions_that_cannot_be_applied_cost_their_own_episode_only(
    tmp_path: Path, odd: object
) -> None:
    outcomes = await run_against(tmp_path, answering(np.zeros(2), odd=odd))

    assert codes(outcomes) == (["result"] * 4 + ["policy_action_unusable"]) * 8
