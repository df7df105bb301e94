"""Servers that answer nonsense: an episode without verdict at worst, never a wrong one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from mcp_types import CallToolResult

from openeta_exp.adapters.simulator.mcp_session import CallLimits, McpSimulatorSession
from openeta_exp.adapters.simulator.mcp_simulator import McpSimulator
from openeta_exp.domain.episode import CleanupStatus
from openeta_exp.domain.evidence import checker_success
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
    hosting,
    never,
    png,
    text,
    turns_of_the_loop,
)
from tests.worlds import MOVE, OPEN

pytestmark = pytest.mark.anyio

EXECUTION = ExecutionId("e" * 32)
SPEC = EpisodeSpec(episode_id=EpisodeId("one"), env_id="env", task="do it", seed=3)
FOLLOW = ToolCall(name="follow_eef_trajectory", arguments={"trajectory": [{"xyz": [0, 0, 0.3]}]})
SOON = CallLimits(call_timeout_s=0.2, close_timeout_s=0.2)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the one server of this module."""
    return "asyncio"


@pytest.fixture(scope="module")
async def hostile() -> AsyncIterator[Hostile]:
    server = Hostile()
    async with hosting(server) as port:
        server.url = f"http://127.0.0.1:{port}/mcp"
        yield server


@asynccontextmanager
async def simulator(
    hostile: Hostile, *, limits: CallLimits | None = None
) -> AsyncIterator[McpSimulator]:
    subject = McpSimulator(hostile.url, limits=limits)
    try:
        yield subject
    finally:
        await subject.aclose()


@asynccontextmanager
async def session(
    hostile: Hostile, *, limits: CallLimits | None = None
) -> AsyncIterator[McpSimulatorSession]:
    async with (
        simulator(hostile, limits=limits) as subject,
        subject.open(SPEC, execution_id=EXECUTION) as opened,
    ):
        yield opened


async def raising() -> Answer:
    raise ZeroDivisionError


NO_REPLIES: dict[str, Answer] = {
    "no JSON": "the robot says hello",
    "a JSON list": "[1, 2]",
    "NaN": '{"reward": NaN}',
    "infinity": '{"reward": 1e999}',
    "no double": '{"reward": 1%s}' % ("0" * 400),
    "half a surrogate pair": '{"reward": 0.0, "note": "\\ud800"}',
    "nested without end": "[" * 100_000,
    "nested deeply": '{"reward": %s}' % ("[" * 200 + "]" * 200),
    "no content": CallToolResult(content=[]),
    "structured NaN": CallToolResult(content=[], structured_content={"reward": float("nan")}),
    "more input wanted": CallToolResult(content=[], result_type="input_required"),
}


@pytest.mark.parametrize("answer", NO_REPLIES.values(), ids=NO_REPLIES)
@pytest.mark.parametrize("call", [MOVE, OPEN, FOLLOW], ids=lambda call: call.name)
async def test_an_answer_that_is_no_json_object_leaves_the_outcome_of_a_motion_unknown(
    hostile: Hostile, answer: Answer, call: ToolCall
) -> None:
    tools = ("move_to", "gripper_open", "follow_eef_trajectory")
    hostile.answering(dict.fromkeys(tools, answer))

    async with session(hostile) as opened:
        await opened.reset()
        with pytest.raises(SimulatorError) as caught:
            await opened.call(call)

    assert caught.value.outcome_unknown
    assert caught.value.code == "simulator_mcp_invalid_response"
    assert sum(hostile.times(tool) for tool in tools) == 1


UNREADABLE: dict[str, JsonObject] = {
    "reward as text": {"reward": "1.0"},
    "reward as truth": {"reward": True},
    "reward as list": {"reward": [1.0]},
    "terminated as 1": {"terminated": 1},
    "truncated as text": {"truncated": "false"},
    "missing robot pose": {"observation": {**OBSERVATION, "robot": {}}},
    "robot as list": {"observation": {**OBSERVATION, "robot": []}},
    "cameras as object": {"observation": {**OBSERVATION, "cameras": {}}},
}


@pytest.mark.parametrize("wrong", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_reply_that_cannot_be_read_makes_no_receipt(
    hostile: Hostile, wrong: JsonObject
) -> None:
    hostile.answering({"move_to": {**STEP, "reward": 1.0, **wrong}})

    async with session(hostile) as opened:
        await opened.reset()
        with pytest.raises(SimulatorError) as caught:
            await opened.call(MOVE)
        seen = await opened.observe()

    assert caught.value.outcome_unknown
    assert caught.value.code == "simulator_mcp_invalid_response"
    assert seen.receipt is not None
    assert (seen.receipt.call_index, seen.receipt.reward) == (0, 0.0)
    assert hostile.times("move_to") == 1


BAD_IMAGES: dict[str, JsonObject] = {
    "no base64": {"rgb_base64": "!!!"},
    "base64 with a hole": {"rgb_base64": png(4, 3)[:20] + "?" + png(4, 3)[20:]},
    "not even ASCII": {"rgb_base64": "äöü"},
    "no image": {"rgb_base64": "aGVsbG8="},
    "a number": {"rgb_base64": 7},
    "colour of another size": {"rgb_base64": png(3, 4)},
    "depth of another size": {"depth_base64": png(8, 6, mode="I;16")},
    "no width": {"width": 0},
    "half a pixel": {"width": 4.5},
    "a width that is no double": {"width": 10**300},
    "a name that climbs": {"frame_id": "../../outside"},
    "no rotation": {
        "extrinsics": {"camera_frame": "ros", "pos": [0, 0, 0], "quat_xyzw": [0, 0, 0, 0]}
    },
    "a rotation that overflows": {
        "extrinsics": {"camera_frame": "ros", "pos": [0, 0, 0], "quat_xyzw": [1e300] * 4}
    },
}


@pytest.mark.parametrize("wrong", BAD_IMAGES.values(), ids=BAD_IMAGES)
async def test_a_view_that_is_not_what_it_says_is_refused_at_reset(
    hostile: Hostile, wrong: JsonObject
) -> None:
    shown: JsonObject = {**OBSERVATION, "cameras": [{**CAMERA, **wrong}]}

    async with session(hostile.answering({"reset_env": shown})) as opened:
        if wrong == BAD_IMAGES["a rotation that overflows"]:
            [frame] = (await opened.reset()).cameras
            assert all(abs(entry) <= 1 for row in frame.world_from_camera for entry in row)
            return
        with pytest.raises(SimulatorError, match="reset_env") as caught:
            await opened.reset()

    assert caught.value.code == "simulator_mcp_invalid_response"


@pytest.mark.parametrize("handle", [None, "", 7, True, ["h"], {"h": 1}])
async def test_an_environment_without_a_usable_handle_is_none(
    hostile: Hostile, handle: object
) -> None:
    hostile.answering({"create_env": {"session_id": "s", "handle": handle}})  # type: ignore[dict-item]

    async with simulator(hostile) as subject:
        opening = subject.open(SPEC, execution_id=EXECUTION)
        with pytest.raises(SimulatorError, match="without a handle"):
            await opening.__aenter__()


@pytest.mark.parametrize(
    ("created", "address"),
    [
        ({"handle": "h"}, {"handle": "h"}),
        ({"handle": "h", "session_id": None}, {"handle": "h"}),
        ({"handle": "h", "session_id": ""}, {"handle": "h"}),
        ({"handle": "h", "session_id": "s"}, {"handle": "h", "session_id": "s"}),
    ],
)
async def test_every_call_names_the_environment_as_the_server_did(
    hostile: Hostile, created: JsonObject, address: JsonObject
) -> None:
    hostile.answering({"create_env": created})

    async with session(hostile) as opened:
        await opened.reset()
        await opened.observe()
        await opened.call(OPEN)

    [creation, *later] = hostile.asked
    assert creation[1]["session_id"] == EXECUTION
    assert later == [
        ("reset_env", {**address, "seed": 3}),
        ("render_env", address),
        ("gripper_open", address),
        ("close_env", address),
    ]


async def test_a_planner_cannot_name_the_environment_of_another_episode(hostile: Hostile) -> None:
    hostile.answering()
    elsewhere: JsonObject = {"handle": "theirs", "session_id": "theirs", "render": False}

    async with session(hostile) as opened:
        await opened.reset()
        for call in (MOVE, OPEN, FOLLOW):
            await opened.call(ToolCall(name=call.name, arguments={**call.arguments, **elsewhere}))

    acted = [arguments for tool, arguments in hostile.asked if tool not in ("create_env",)]
    assert {(each["handle"], each["session_id"]) for each in acted} == {("h", "s")}
    assert not any("render" in arguments for arguments in acted)


FATAL = (
    {"error": "the arm is gone", "fatal": True},
    {"error": "Unknown: h"},
    {"error": "Worker request failed: 500"},
    {"error": "Env was closed during the call"},
    {"error": "Step failed: no physics"},
)
HARMLESS = (
    {"error": "target out of reach"},
    {"error": {"reason": "unreachable"}, "fatal": False},
    {"ok": False, "message": "gripper busy"},
    {"success": False, "code": "busy"},
    {"error": "x" * 1_000_000},
)


@pytest.mark.parametrize("reply", FATAL)
async def test_an_error_that_ends_the_environment_ends_the_episode(
    hostile: Hostile, reply: JsonObject
) -> None:
    async with session(hostile.answering({"move_to": reply})) as opened:
        await opened.reset()
        with pytest.raises(SimulatorError) as caught:
            await opened.call(MOVE)

    assert caught.value.code == "simulator_mcp_error"
    assert caught.value.outcome_unknown


@pytest.mark.parametrize("reply", HARMLESS, ids=lambda reply: str(reply)[:30])
async def test_a_motion_that_is_refused_is_the_planners_to_handle(
    hostile: Hostile, reply: JsonObject
) -> None:
    async with session(hostile.answering({"move_to": reply})) as opened:
        await opened.reset()
        result = await opened.call(MOVE)

    assert not result.success
    assert result.receipt is None
    assert [each.code for each in result.diagnostics] == ["simulator_mcp_error"]
    assert len(result.diagnostics[0].message) <= 2_000


@pytest.mark.parametrize("empty", [None, "", False])
async def test_a_reply_whose_error_is_empty_is_no_error(hostile: Hostile, empty: object) -> None:
    hostile.answering({"move_to": {**STEP, "error": empty}})  # type: ignore[dict-item]

    async with session(hostile) as opened:
        await opened.reset()
        assert (await opened.call(MOVE)).success


@pytest.mark.parametrize("tool", ["create_env", "reset_env", "render_env"])
async def test_an_error_of_a_call_that_must_succeed_is_the_simulators(
    hostile: Hostile, tool: str
) -> None:
    hostile.answering({tool: {"error": "out of memory"}})

    async def play() -> None:
        async with session(hostile) as opened:
            await opened.reset()
            await opened.observe()

    with pytest.raises(SimulatorError, match=f"{tool}.*out of memory") as caught:
        await play()

    assert caught.value.tool == tool
    assert not caught.value.outcome_unknown


@pytest.mark.parametrize(
    "said",
    [
        "Error executing tool move_to: 1 validation error for MoveTo",
        "Input validation error: 'far' is not of type 'number'",
        "Unknown tool: move_to",
    ],
)
async def test_a_call_that_was_not_run_is_refused(hostile: Hostile, said: str) -> None:
    async with session(hostile.answering({"move_to": text(said, is_error=True)})) as opened:
        await opened.reset()
        result = await opened.call(MOVE)

    assert not result.success
    assert said in result.diagnostics[0].message


@pytest.mark.parametrize("breaks", [text("CUDA error", is_error=True), raising])
async def test_a_tool_that_breaks_may_have_moved_the_world(
    hostile: Hostile, breaks: Answer
) -> None:
    hostile.answering({"move_to": breaks})

    async with session(hostile) as opened:
        await opened.reset()
        with pytest.raises(SimulatorError) as caught:
            await opened.call(MOVE)

    assert caught.value.outcome_unknown
    assert caught.value.code == "simulator_mcp_call_failed"
    assert hostile.times("move_to") == 1


async def test_a_call_that_never_answers_is_given_up_and_not_repeated(hostile: Hostile) -> None:
    hostile.answering({"move_to": never})

    async with session(hostile, limits=SOON) as opened:
        await opened.reset()
        with pytest.raises(SimulatorError) as caught:
            await opened.call(MOVE)
        seen = await opened.observe()

    assert caught.value.code == "simulator_mcp_transport_timeout"
    assert caught.value.outcome_unknown
    assert seen.success
    assert hostile.times("move_to") == 1
    assert hostile.times("close_env") == 1


@pytest.mark.parametrize(
    "sign", [{"metadata": {"success_at_reset": True}}, {"metadata": {"reward": 1.0}}]
)
async def test_a_scene_that_is_solved_at_reset_proves_nothing(
    hostile: Hostile, sign: JsonObject
) -> None:
    hostile.answering({"reset_env": {**OBSERVATION, **sign}, "move_to": {**STEP, "reward": 1.0}})

    async with session(hostile) as opened:
        first = await opened.reset()
        receipt = (await opened.call(MOVE)).receipt

    assert first.success_at_reset
    assert receipt is not None
    assert not checker_success([receipt], EXECUTION)


@pytest.mark.parametrize(
    "wrapped",
    [
        CallToolResult(content=[], structured_content={**STEP, "reward": 1.0}),
        text('{"reward": 1.0, "terminated": true}').model_copy(
            update={"structured_content": {"result": '{"reward": 1.0, "terminated": true}'}}
        ),
    ],
    ids=["structured", "text that a server wrapped"],
)
async def test_a_reply_is_read_however_the_server_wraps_it(
    hostile: Hostile, wrapped: CallToolResult
) -> None:
    async with session(hostile.answering({"move_to": wrapped})) as opened:
        await opened.reset()
        receipt = (await opened.call(MOVE)).receipt

    assert receipt is not None
    assert receipt.reward == 1.0


CLOSES: dict[str, Answer] = {
    "an error": {"error": "no such env"},
    "cleanup errors": {"ok": True, "cleanup_errors": ["a process was ended"]},
    "a refusal": {"ok": False},
    "an exception": raising,
    "isError": text("broken", is_error=True),
    "nonsense": "[]",
    "silence": never,
}


@pytest.mark.parametrize("answer", CLOSES.values(), ids=CLOSES)
async def test_a_close_that_fails_says_so_once_and_raises_nothing(
    hostile: Hostile, answer: Answer
) -> None:
    hostile.answering({"close_env": answer, "move_to": {**STEP, "reward": 1.0}})
    limits = SOON if answer is never else None

    async with session(hostile, limits=limits) as opened:
        await opened.reset()
        receipt = (await opened.call(MOVE)).receipt
        cleanup = await opened.close()

    assert cleanup.status is CleanupStatus.FAILED
    assert cleanup.message
    assert receipt is not None
    assert receipt.reward == 1.0
    assert hostile.times("close_env") == 1


async def test_every_closer_hears_how_the_one_close_went(hostile: Hostile) -> None:
    go_on = anyio.Event()

    async def late() -> Answer:
        await go_on.wait()
        return {"error": "stuck"}

    hostile.answering({"close_env": late})
    async with session(hostile) as opened:
        said = []

        async def close() -> None:
            said.append(await opened.close())

        async with anyio.create_task_group() as group:
            group.start_soon(close)
            await hostile.beginning("close_env").wait()
            group.start_soon(close)
            await turns_of_the_loop()
            go_on.set()

    assert [(each.status, each.message) for each in said] == [(CleanupStatus.FAILED, "stuck")] * 2
    assert hostile.times("close_env") == 1


async def test_a_close_that_was_cancelled_is_not_told_as_closed_and_not_sent_again(
    hostile: Hostile,
) -> None:
    hostile.answering({"close_env": never})

    async with session(hostile) as opened:
        async with anyio.create_task_group() as group:
            group.start_soon(opened.close)
            await hostile.beginning("close_env").wait()
            group.cancel_scope.cancel()
        cleanup = await opened.close()

    assert cleanup.status is CleanupStatus.FAILED
    assert hostile.times("close_env") == 1


async def test_a_server_is_named_without_the_secrets_in_its_address(hostile: Hostile) -> None:
    address = f"{hostile.url}?token=secret".replace("//", "//user:secret@")
    async with simulator(replace(hostile, url=address)) as subject:
        described = await subject.describe()
    nobody = McpSimulator("http://user:secret@127.0.0.1:9/mcp?token=secret")
    with pytest.raises(SimulatorError) as caught:
        await nobody.describe()

    assert described["url"] == hostile.url
    assert "http://127.0.0.1:9/mcp" in str(caught.value)
    assert "secret" not in str(caught.value)
