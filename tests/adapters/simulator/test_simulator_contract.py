"""What `ports.simulator` promises, of the embedded simulator and of the scenes in memory alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import TextContent

from openeta_exp.adapters.mcp_connection import McpConnection
from openeta_exp.adapters.simulator.mcp_simulator import McpSimulator, ViewSettings
from openeta_exp.domain.episode import Cleanup, CleanupStatus
from openeta_exp.domain.evidence import EnvironmentReceipt, checker_success
from openeta_exp.domain.identity import EpisodeId, ExecutionId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult
from openeta_exp.embedded.simulator.replies import (
    CreateReply,
    ObjectObservation,
)
from openeta_exp.embedded.simulator.replies import Observation as WireObservation
from openeta_exp.errors import SimulatorError
from openeta_exp.ports.simulator import Simulator, SimulatorSession
from scripts.benchmarks.sim_pick import Strategy, pick_and_place
from tests.embedded.simulator.servers import Ready, http_server
from tests.worlds import MOVE, OPEN, Scenes, prepared

pytestmark = pytest.mark.anyio

EXECUTION = ExecutionId("e" * 32)
OTHER = ExecutionId("f" * 32)
CAN = "openeta/tabletop_pick_can_basket-v0"
SPEC = EpisodeSpec(
    episode_id=EpisodeId("can"), env_id=CAN, task="pick up the can and place it in the basket"
)

Solve = Callable[[SimulatorSession], Awaitable[list[EnvironmentReceipt]]]
"""Have the session's task done; gives the receipts of all calls it took."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A simulator, and what a test may know of it that the port does not say."""

    simulator: Simulator
    solve: Solve
    active: Callable[[ExecutionId], Awaitable[int]]
    """Environments of an execution that have not been given back."""


@pytest.fixture(scope="module")
def server() -> Iterator[Ready]:
    with http_server("--max-envs", "3") as (_, ready):
        yield ready


@pytest.fixture(params=["memory", "streamable HTTP", "SSE"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    if request.param == "memory":
        yield in_memory()
        return
    ready: Ready = request.getfixturevalue("server")
    url = ready.url if request.param == "streamable HTTP" else ready.sse_url
    simulator = McpSimulator(url, view=ViewSettings(image_width=32, image_height=32))
    looking = McpConnection(ready.url)

    async def active(execution_id: ExecutionId) -> int:
        reply = await looking.call("list_active_envs", {"session_id": execution_id}, timeout_s=10)
        count = reply["count"]
        assert isinstance(count, int)
        return count

    async def solve(session: SimulatorSession) -> list[EnvironmentReceipt]:
        hand = Hand(session, await objects_of(ready.url))
        assert await pick_and_place(hand, target="can_1", container="basket_1", strategy=Strategy())
        return hand.receipts

    yield Subject(simulator=simulator, solve=solve, active=active)
    await simulator.aclose()
    await looking.aclose()


def in_memory() -> Subject:
    scenes = Scenes(prepared(solved_by=2))

    async def active(execution_id: ExecutionId) -> int:
        return sum(
            scene.execution_id == execution_id and scene.closed is None for scene in scenes.opened
        )

    async def solve(session: SimulatorSession) -> list[EnvironmentReceipt]:
        return [receipt_of(await session.call(MOVE)) for _ in range(2)]

    return Subject(simulator=scenes, solve=solve, active=active)


async def objects_of(url: str) -> tuple[ObjectObservation, ...]:
    """Where the objects of the spec's scene lie; the adapter never asks for them."""

    async with Client(url) as client:

        async def ask(tool: str, **arguments: object) -> str:
            [block] = (await client.call_tool(tool, arguments)).content
            assert isinstance(block, TextContent)
            return block.text

        created = CreateReply.from_json(
            await ask("create_env", env_id=CAN, cameras=[], include_objects=True)
        )
        ids = {"handle": created.handle, "session_id": created.session_id}
        seen = WireObservation.from_json(await ask("reset_env", **ids, seed=SPEC.seed))
        await ask("close_env", **ids)
        return seen.objects


@dataclass
class Hand:
    """The arm of a session, as the scripted pick and place wants it."""

    session: SimulatorSession
    seen: tuple[ObjectObservation, ...]
    receipts: list[EnvironmentReceipt] = field(default_factory=list)

    async def objects(self) -> tuple[ObjectObservation, ...]:
        return self.seen

    async def move(self, xyz: tuple[float, float, float], *, yaw_deg: float) -> bool:
        x, y, z = xyz
        pose: JsonObject = {"x": x, "y": y, "z": z, "roll": 180, "pitch": 0, "yaw": yaw_deg}
        return await self._call(ToolCall(name="move_to", arguments={"target_pose": pose}))

    async def grip(self, *, open_fingers: bool, steps: int) -> bool:
        arguments: JsonObject = {"position": int(open_fingers), "num_steps": steps}
        return await self._call(ToolCall(name="gripper_control", arguments=arguments))

    async def _call(self, call: ToolCall) -> bool:
        receipt = receipt_of(await self.session.call(call))
        self.receipts.append(receipt)
        return receipt.terminated


def receipt_of(result: ToolResult) -> EnvironmentReceipt:
    assert result.success, result.outputs
    assert result.receipt is not None
    return result.receipt


async def test_a_reset_shows_the_initial_state_of_the_seed(subject: Subject) -> None:
    shown: list[Observation] = []
    for execution_id in (EXECUTION, OTHER):
        async with subject.simulator.open(SPEC, execution_id=execution_id) as session:
            shown.append(await session.reset())
            await session.call(OPEN)
            shown.append(await session.reset())

    assert len({observation.state_digest for observation in shown}) == 1
    assert shown[0].state_digest
    assert shown[0].cameras
    assert not any(observation.success_at_reset for observation in shown)


async def test_receipts_are_bound_to_the_execution_and_numbered(subject: Subject) -> None:
    async with subject.simulator.open(SPEC, execution_id=EXECUTION) as session:
        await session.reset()
        results = [
            await session.observe(),
            await session.call(OPEN),
            await session.observe(),
        ]

    receipts = [receipt_of(result) for result in results]
    assert [receipt.call_index for receipt in receipts] == [0, 1, 2]
    assert {receipt.execution_id for receipt in receipts} == {EXECUTION}
    assert len({receipt.handle for receipt in receipts}) == 1
    assert [result.effect for result in results] == [
        ToolEffect.READ_ONLY,
        ToolEffect.WORLD_MUTATING,
        ToolEffect.READ_ONLY,
    ]


async def test_looking_changes_nothing(subject: Subject) -> None:
    async with subject.simulator.open(SPEC, execution_id=EXECUTION) as session:
        await session.reset()
        looks = [(await session.observe()).observation for _ in range(3)]

    assert len({look.state_digest for look in looks if look is not None}) == 1
    assert None not in looks


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(name="fly", arguments={"x": 1.0}),
        ToolCall(name="close_env"),
        ToolCall(name="move_to", arguments={"target_pose": {"x": 10**400, "y": 0, "z": 0}}),
        ToolCall(name="move_to", arguments={"target_pose": "up"}),
        ToolCall(name="gripper_control", arguments={"position": 0.5}),
    ],
    ids=["no tool", "not a planner's tool", "no double", "no pose", "half open"],
)
async def test_what_cannot_be_called_is_refused_and_nothing_moves(
    subject: Subject, call: ToolCall
) -> None:
    async with subject.simulator.open(SPEC, execution_id=EXECUTION) as session:
        before = await session.reset()
        refusal = await session.call(call)
        after = await session.observe()

    assert not refusal.success
    assert refusal.receipt is None
    assert refusal.diagnostics
    assert after.observation is not None
    assert after.observation.state_digest == before.state_digest
    assert receipt_of(after).call_index == 0


async def test_every_tool_that_is_offered_is_a_tool_that_acts(subject: Subject) -> None:
    assert {tool.effect for tool in subject.simulator.tools} == {ToolEffect.WORLD_MUTATING}
    assert await subject.simulator.knows(SPEC.env_id)
    assert await subject.simulator.describe()


async def test_success_is_the_checkers_reward_in_this_execution_and_nothing_else(
    subject: Subject,
) -> None:
    async with subject.simulator.open(SPEC, execution_id=EXECUTION) as session:
        await session.reset()
        missed = [receipt_of(await session.call(OPEN)), receipt_of(await session.observe())]
        await session.reset()
        receipts = await subject.solve(session)
        seen = receipt_of(await session.observe())

    assert not checker_success(missed, EXECUTION)
    assert [receipt.reward > 0 for receipt in receipts[-2:]] == [False, True]
    assert checker_success(receipts, EXECUTION)
    assert not checker_success(receipts, OTHER)
    # So that a success whose reply was lost is not lost with it.
    assert checker_success([seen], EXECUTION)


async def test_two_closers_at_once_and_leaving_close_once(subject: Subject) -> None:
    said: list[Cleanup] = []

    async with subject.simulator.open(SPEC, execution_id=EXECUTION) as session:
        await session.reset()

        async def close() -> None:
            said.append(await session.close())

        async with anyio.create_task_group() as group:
            group.start_soon(close)
            group.start_soon(close)
        said.append(await session.close())

    assert {cleanup.status for cleanup in said} == {CleanupStatus.CLOSED}
    assert await subject.active(EXECUTION) == 0


async def test_what_breaks_an_episode_still_gives_the_environment_back(subject: Subject) -> None:
    async def play() -> None:
        async with subject.simulator.open(SPEC, execution_id=EXECUTION) as session:
            await session.reset()
            assert await subject.active(EXECUTION) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await play()

    assert await subject.active(EXECUTION) == 0


async def test_an_episode_cancelled_in_a_call_gives_the_environment_back(
    subject: Subject,
) -> None:
    async with anyio.create_task_group() as group:

        async def play() -> None:
            async with subject.simulator.open(SPEC, execution_id=EXECUTION) as session:
                await session.reset()
                group.cancel_scope.cancel()
                await session.call(MOVE)
                raise AssertionError("a cancelled call answered")

        group.start_soon(play)

    assert await subject.active(EXECUTION) == 0


async def test_episodes_side_by_side_do_not_see_each_other(subject: Subject) -> None:
    async with (
        subject.simulator.open(SPEC, execution_id=EXECUTION) as mine,
        subject.simulator.open(SPEC, execution_id=OTHER) as theirs,
    ):
        before = await theirs.reset()
        await mine.reset()
        moved = receipt_of(await mine.call(MOVE))
        await mine.close()
        after = await theirs.observe()

    assert moved.execution_id == EXECUTION
    assert receipt_of(after).execution_id == OTHER
    assert receipt_of(after).call_index == 0
    assert after.observation is not None
    assert after.observation.state_digest == before.state_digest


async def test_an_environment_that_does_not_exist_is_named_and_leaves_nothing(
    server: Ready,
) -> None:
    simulator = McpSimulator(server.url)
    spec = SPEC.model_copy(update={"env_id": "openeta/tabletop_pick_anvil-v0"})
    try:
        assert not await simulator.knows(spec.env_id)
        opening = simulator.open(spec, execution_id=EXECUTION)
        with pytest.raises(SimulatorError, match="anvil"):
            await opening.__aenter__()
    finally:
        await simulator.aclose()


@pytest.mark.parametrize("way", ["url", "sse_url"])
async def test_an_episode_cancelled_while_its_environment_is_built_leaves_none(
    server: Ready, way: str
) -> None:
    simulator = McpSimulator(getattr(server, way))
    await simulator.describe()
    async with httpx2.AsyncClient() as client:

        async def busy() -> int:
            health = (await client.get(server.url.replace("/mcp", "/health"))).json()
            return int(health["busy"])

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:

                async def play() -> None:
                    async with simulator.open(SPEC, execution_id=EXECUTION):
                        await anyio.sleep_forever()

                group.start_soon(play)
                while await busy() == 0:
                    pass
                group.cancel_scope.cancel()
            while await busy() > 0:
                pass
    await simulator.aclose()
