"""Connections that break: no call is run twice, and one broken connection costs one call."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp_types import CallToolResult

from openeta_exp.adapters.mcp_connection import CallFailure, McpCallError, McpConnection
from openeta_exp.adapters.simulator.mcp_session import CallLimits
from openeta_exp.adapters.simulator.mcp_simulator import McpSimulator
from openeta_exp.domain.episode import CleanupStatus
from openeta_exp.domain.identity import EpisodeId, ExecutionId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.tool import ToolCall
from openeta_exp.errors import SimulatorError
from tests.adapters.simulator.hostile_server import (
    CAMERA,
    OBSERVATION,
    STEP,
    Answer,
    Hostile,
    Relay,
    hosting,
    never,
    png,
    relaying,
    turns_of_the_loop,
)
from tests.worlds import MOVE, OPEN

pytestmark = pytest.mark.anyio

EXECUTION = ExecutionId("e" * 32)
SPEC = EpisodeSpec(episode_id=EpisodeId("one"), env_id="env", task="do it")
FOLLOW = ToolCall(name="follow_eef_trajectory", arguments={"trajectory": [{"xyz": [0, 0, 0.3]}]})

# How a server is reached: path, whether it only knows sessions of a handshake, whether it
# answers in plain JSON.
WAYS = {
    "streamable HTTP": ("/mcp", False, True),
    "streamable HTTP with sessions": ("/mcp", True, True),
    "streamable HTTP with sessions and event streams": ("/mcp", True, False),
    "SSE": ("/sse", False, True),
}


@asynccontextmanager
async def reached(
    way: str, hostile: Hostile, *, limits: CallLimits | None = None
) -> AsyncIterator[tuple[McpSimulator, Relay]]:
    path, legacy, json_response = WAYS[way]
    async with (
        hosting(hostile, legacy=legacy, json_response=json_response) as port,
        relaying(port) as (relay, origin),
    ):
        simulator = McpSimulator(f"{origin}{path}", limits=limits)
        try:
            yield simulator, relay
        finally:
            await simulator.aclose()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", [MOVE, OPEN, FOLLOW], ids=lambda call: call.name)
async def test_a_motion_whose_connection_breaks_is_unknown_and_never_sent_again(
    way: str, call: ToolCall
) -> None:
    tool = "gripper_open" if call is OPEN else call.name
    hostile = Hostile({tool: never})
    caught: list[SimulatorError] = []

    async with (
        reached(way, hostile) as (simulator, relay),
        simulator.open(SPEC, execution_id=EXECUTION) as session,
    ):
        await session.reset()

        async def act() -> None:
            try:
                await session.call(call)
            except SimulatorError as error:
                caught.append(error)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(act)
                await hostile.beginning(tool).wait()
                relay.cut()
        seen = await session.observe()
        cleanup = await session.close()

    [error] = caught
    assert error.outcome_unknown
    assert error.code == "simulator_mcp_transport_connection_lost"
    assert hostile.times(tool) == 1
    assert seen.success
    assert cleanup.status is CleanupStatus.CLOSED
    assert hostile.times("close_env") == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_connection_that_broke_while_nobody_used_it_costs_no_call(way: str) -> None:
    hostile = Hostile()

    async with (
        reached(way, hostile) as (simulator, relay),
        simulator.open(SPEC, execution_id=EXECUTION) as session,
    ):
        await session.reset()
        relay.cut()
        await turns_of_the_loop()
        result = await session.call(MOVE)

    assert result.success
    assert hostile.times("move_to") == 1
    assert hostile.times("close_env") == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_was_started_again_loses_no_later_episode(way: str) -> None:
    path, legacy, json_response = WAYS[way]
    before, after = Hostile(), Hostile()

    async with relaying(0) as (relay, origin):
        simulator = McpSimulator(f"{origin}{path}")
        async with hosting(before, legacy=legacy, json_response=json_response) as port:
            relay.target = port
            async with simulator.open(SPEC, execution_id=EXECUTION) as session:
                await session.reset()
            relay.cut()
        async with hosting(after, legacy=legacy, json_response=json_response) as port:
            relay.target = port
            for _ in range(2):
                async with simulator.open(SPEC, execution_id=EXECUTION) as session:
                    await session.reset()
                    assert (await session.call(MOVE)).success
            await simulator.aclose()

    assert before.times("create_env") == before.times("close_env") == 1
    assert after.times("create_env") == after.times("close_env") == 2
    assert after.times("move_to") == 2


async def test_a_server_that_forgot_the_session_did_not_run_the_call() -> None:
    """As a server of the SDK 1.x after a restart behind the same port, without one cut."""
    way = "streamable HTTP with sessions"
    first, second = Hostile(), Hostile()
    path, legacy, json_response = WAYS[way]
    async with (
        hosting(first, legacy=legacy, json_response=json_response) as port,
        hosting(second, legacy=legacy, json_response=json_response) as other,
        relaying(port) as (relay, origin),
    ):
        simulator = McpSimulator(f"{origin}{path}")
        async with simulator.open(SPEC, execution_id=EXECUTION) as session:
            await session.reset()
            relay.target = other
            relay.cut()
            result = await session.call(MOVE)
            cleanup = await session.close()
        await simulator.aclose()

    assert result.success
    assert (first.times("move_to"), second.times("move_to")) == (0, 1)
    assert cleanup.status is CleanupStatus.CLOSED


async def test_nobody_there_is_said_at_once_to_everybody() -> None:
    connection = McpConnection("http://127.0.0.1:9/mcp")
    failures: list[CallFailure] = []

    async def ask() -> None:
        try:
            await connection.call("create_env", {}, timeout_s=10)
        except McpCallError as error:
            failures.append(error.failure)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(32):
                group.start_soon(ask)

    assert failures == [CallFailure.CONNECTION] * 32


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_server_that_hangs_up_is_not_tried_by_each_episode_in_turn(path: str) -> None:
    failures: list[CallFailure] = []
    visits = itertools.count()

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        next(visits)
        writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = McpConnection(f"http://127.0.0.1:{port}{path}")

        async def ask() -> None:
            try:
                await connection.call("create_env", {}, timeout_s=10)
            except McpCallError as error:
                failures.append(error.failure)

        async with anyio.create_task_group() as group:
            for _ in range(32):
                group.start_soon(ask)

    assert failures == [CallFailure.CONNECTION] * 32
    assert next(visits) < 8


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_server_that_accepts_and_says_nothing_is_waited_for_once(path: str) -> None:
    """The time a call may take includes connecting, and calls do not queue up behind it."""
    started = anyio.current_time()
    failures: list[CallFailure] = []

    async with silence() as port:
        connection = McpConnection(f"http://127.0.0.1:{port}{path}")

        async def ask() -> None:
            try:
                await connection.call("create_env", {}, timeout_s=0.3)
            except McpCallError as error:
                failures.append(error.failure)

        async with anyio.create_task_group() as group:
            for _ in range(32):
                group.start_soon(ask)
        await connection.aclose()

    assert failures == [CallFailure.TIMEOUT] * 32
    assert anyio.current_time() - started < 5


@asynccontextmanager
async def silence() -> AsyncIterator[int]:
    """A port that takes connections and never answers."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

    async def keep(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, keep)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


@pytest.mark.parametrize("way", WAYS)
async def test_32_episodes_share_a_connection_without_seeing_each_other(way: str) -> None:
    numbers = itertools.count()
    hostile = Hostile({"create_env": lambda: created(next(numbers))})
    seen: dict[str, list[str]] = {}

    async with reached(way, hostile) as (simulator, _):

        async def play(execution_id: ExecutionId) -> None:
            async with simulator.open(SPEC, execution_id=execution_id) as session:
                await session.reset()
                results = [await session.call(MOVE), await session.observe()]
            receipts = [result.receipt for result in results if result.receipt is not None]
            assert [receipt.call_index for receipt in receipts] == [0, 1]
            assert {receipt.execution_id for receipt in receipts} == {execution_id}
            seen[execution_id] = [receipt.handle for receipt in receipts]

        async with anyio.create_task_group() as group:
            for number in range(32):
                group.start_soon(play, ExecutionId(f"{number:032d}"))

    assert len(seen) == 32
    assert len({handle for handles in seen.values() for handle in handles}) == 32
    for tool in ("create_env", "reset_env", "move_to", "close_env"):
        asked = [arguments for name, arguments in hostile.asked if name == tool]
        assert len(asked) == 32
        assert len({json.dumps(each["session_id"]) for each in asked}) == 32


async def created(number: int) -> Answer:
    return {"handle": f"h{number}", "session_id": f"s{number}"}


@pytest.mark.parametrize("way", [way for way in WAYS if way != "SSE"])
async def test_one_connection_of_32_that_breaks_costs_one_call(way: str) -> None:
    go_on, all_there = anyio.Event(), anyio.Event()
    moving = itertools.count(1)

    async def wait() -> Answer:
        if next(moving) == 32:
            all_there.set()
        await go_on.wait()
        return STEP

    hostile = Hostile({"move_to": wait})
    errors: list[SimulatorError] = []
    answered: list[bool] = []

    async with reached(way, hostile) as (simulator, relay):

        async def play() -> None:
            async with simulator.open(SPEC, execution_id=EXECUTION) as session:
                try:
                    answered.append((await session.call(MOVE)).success)
                except SimulatorError as error:
                    errors.append(error)
                    await session.observe()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for _ in range(32):
                    group.start_soon(play)
                await all_there.wait()
                relay.cut(only=len(relay.connections) - 1)
                while not errors:
                    await anyio.lowlevel.checkpoint()
                go_on.set()

    assert [error.outcome_unknown for error in errors] == [True]
    assert answered == [True] * 31
    assert hostile.times("move_to") == 32
    assert hostile.times("close_env") == 32


@pytest.mark.parametrize("way", WAYS)
async def test_a_view_of_several_megabytes_arrives_by_every_way(way: str) -> None:
    width = height = 1024
    camera: JsonObject = {
        **CAMERA,
        "width": width,
        "height": height,
        "rgb_base64": png(width, height, noise=os.urandom(width * height * 3)),
        "depth_base64": None,
    }
    hostile = Hostile({"reset_env": {**OBSERVATION, "cameras": [camera]}})

    async with (
        reached(way, hostile) as (simulator, _),
        simulator.open(SPEC, execution_id=EXECUTION) as session,
    ):
        [frame] = (await session.reset()).cameras

    assert len(frame.rgb_png) > 3_000_000


async def test_a_call_for_more_input_is_not_answered_with_the_call_again() -> None:
    hostile = Hostile({"move_to": CallToolResult(content=[], result_type="input_required")})

    async with (
        reached("streamable HTTP", hostile) as (simulator, _),
        simulator.open(SPEC, execution_id=EXECUTION) as session,
    ):
        with pytest.raises(SimulatorError) as caught:
            await session.call(MOVE)

    assert caught.value.outcome_unknown
    assert hostile.times("move_to") == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_was_cancelled_leaves_the_connection_to_the_others(way: str) -> None:
    hostile = Hostile({"move_to": never})

    async with reached(way, hostile) as (simulator, _):

        async def cancelled() -> None:
            async with simulator.open(SPEC, execution_id=EXECUTION) as session:
                await session.call(MOVE)

        async with anyio.create_task_group() as group:
            group.start_soon(cancelled)
            await hostile.beginning("move_to").wait()
            group.cancel_scope.cancel()
        closed = hostile.times("close_env")
        async with simulator.open(SPEC, execution_id=EXECUTION) as session:
            assert (await session.call(OPEN)).success

    assert closed == 1
    assert hostile.times("move_to") == 1


@pytest.mark.parametrize("way", WAYS)
async def test_whoever_is_cancelled_while_connecting_leaves_it_to_the_next(way: str) -> None:
    async with reached(way, Hostile()) as (simulator, _):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await simulator.describe()
        async with anyio.create_task_group() as group:
            group.start_soon(simulator.describe)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        with anyio.fail_after(4):
            described = await simulator.describe()

    assert described["tools"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stop", ["cut", "cancel"])
async def test_an_environment_whose_creation_was_not_heard_of_is_given_back(
    way: str, stop: str
) -> None:
    listed: JsonObject = {"session_id": EXECUTION, "count": 1, "envs": [{"handle": "h"}]}
    hostile = Hostile({"create_env": never, "list_active_envs": listed})
    caught: list[SimulatorError] = []

    async with reached(way, hostile) as (simulator, relay):

        async def play() -> None:
            try:
                async with simulator.open(SPEC, execution_id=EXECUTION):
                    raise AssertionError("nobody heard of an environment")
            except SimulatorError as error:
                caught.append(error)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(play)
                await hostile.beginning("create_env").wait()
                if stop == "cut":
                    relay.cut()
                else:
                    group.cancel_scope.cancel()

    assert [each.code for each in caught] == (
        ["simulator_mcp_transport_connection_lost"] if stop == "cut" else []
    )
    assert hostile.times("create_env") == 1
    assert hostile.asked[-1] == ("close_env", {"handle": "h", "session_id": EXECUTION})


@pytest.mark.parametrize(
    "listed",
    [
        {"session_id": "", "count": 1, "envs": [{"handle": "theirs"}]},
        {"count": 1, "envs": [{"handle": "theirs"}]},
        {"session_id": EXECUTION, "envs": "theirs"},
        {"error": "Unknown tool"},
    ],
)
async def test_environments_that_may_be_of_others_are_left_alone(listed: JsonObject) -> None:
    hostile = Hostile({"create_env": {}, "list_active_envs": listed})

    async with reached("streamable HTTP", hostile) as (simulator, _):
        opening = simulator.open(SPEC, execution_id=EXECUTION)
        with pytest.raises(SimulatorError, match="without a handle"):
            await opening.__aenter__()

    assert hostile.times("close_env") == 0
