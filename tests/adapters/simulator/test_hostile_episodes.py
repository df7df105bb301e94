"""Whole episodes on a simulator that misbehaves: the outcome is right, or there is no verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from openeta_exp.adapters.simulator.mcp_session import CallLimits
from openeta_exp.adapters.simulator.mcp_simulator import McpSimulator
from openeta_exp.domain.decision import Finish
from openeta_exp.domain.episode import CleanupStatus, EpisodeFailure, EpisodeResult
from openeta_exp.domain.identity import EpisodeId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.engine.episode import run_episode
from tests.adapters.simulator.hostile_server import (
    OBSERVATION,
    STEP,
    Answer,
    Hostile,
    Relay,
    hosting,
    never,
    relaying,
)
from tests.worlds import MOVE, Saying, calls, world

pytestmark = pytest.mark.anyio

SPEC = EpisodeSpec(episode_id=EpisodeId("one"), env_id="env", task="do it")
WON: JsonObject = {**STEP, "reward": 1.0, "terminated": True}
OVER: JsonObject = {**OBSERVATION, "metadata": {"terminated": True}}


@asynccontextmanager
async def on(
    hostile: Hostile, *, limits: CallLimits | None = None
) -> AsyncIterator[tuple[McpSimulator, Relay]]:
    async with hosting(hostile) as port, relaying(port) as (relay, origin):
        simulator = McpSimulator(f"{origin}/mcp", limits=limits)
        try:
            yield simulator, relay
        finally:
            await simulator.aclose()


@pytest.mark.parametrize("closing", [never, {"error": "stuck"}], ids=["hangs", "fails"])
async def test_a_close_that_hangs_or_fails_leaves_a_success_a_success(closing: Answer) -> None:
    hostile = Hostile({"move_to": WON, "close_env": closing})
    limits = CallLimits(close_timeout_s=0.2)

    async with on(hostile, limits=limits) as (simulator, _):
        outcome = await run_episode(SPEC, world=world(Saying(calls(MOVE)), scenes=simulator))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.success
    assert outcome.cleanup.status is CleanupStatus.FAILED
    assert hostile.times("close_env") == 1


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ({**OVER, "metadata": {"terminated": True, "reward": 1.0}}, True),
        (OVER, None),
        (OBSERVATION, None),
        ({**OBSERVATION, "metadata": {"terminated": False}}, False),
    ],
    ids=["tells of the reward", "tells of the end only", "tells nothing", "tells that it goes on"],
)
async def test_a_motion_whose_reply_is_lost_is_settled_by_looking_or_not_at_all(
    seen: JsonObject, verdict: bool | None
) -> None:
    hostile = Hostile({"move_to": never, "render_env": seen})

    async with on(hostile) as (simulator, relay):

        async def cut() -> None:
            await hostile.beginning("move_to").wait()
            relay.cut()

        async with anyio.create_task_group() as group:
            group.start_soon(cut)
            outcome = await run_episode(
                SPEC, world=world(Saying(calls(MOVE), Finish()), scenes=simulator)
            )

    assert hostile.times("move_to") == 1
    assert hostile.times("close_env") == 1
    if verdict is None:
        assert isinstance(outcome, EpisodeFailure)
        assert outcome.code == "verdict_lost"
    else:
        assert isinstance(outcome, EpisodeResult)
        assert outcome.success is verdict


@pytest.mark.parametrize(
    "reply",
    [
        {**WON, "reward": "1.0"},
        {**WON, "reward": True},
        {**WON, "terminated": 1},
        '{"reward": NaN, "terminated": true}',
        [1],
    ],
    ids=["text", "truth", "number for truth", "NaN", "list"],
)
async def test_no_malformed_reply_makes_a_success(reply: Answer) -> None:
    hostile = Hostile({"move_to": reply, "render_env": OVER})

    async with on(hostile) as (simulator, _):
        outcome = await run_episode(
            SPEC, world=world(Saying(calls(MOVE), Finish()), scenes=simulator)
        )

    assert isinstance(outcome, EpisodeFailure)
    assert hostile.times("move_to") == 1
    assert hostile.times("close_env") == 1


async def test_a_server_that_hangs_in_a_motion_costs_the_episode_its_deadline_only() -> None:
    hostile = Hostile({"move_to": never})
    spec = SPEC.model_copy(update={"budget": SPEC.budget.model_copy(update={"timeout_s": 0.3})})

    async with on(hostile) as (simulator, _):
        outcome = await run_episode(spec, world=world(Saying(calls(MOVE)), scenes=simulator))

    assert isinstance(outcome, EpisodeResult)
    assert not outcome.success
    assert outcome.stop_reason.value == "episode_timeout"
    assert outcome.cleanup.status is CleanupStatus.CLOSED
    assert hostile.times("close_env") == 1
