"""Worlds in memory for tests of the episode loop: a scene that is solved by one motion, a planner
that says what it is told to say. The real parts are tested through `tests/system`."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.simulator.tools import TOOLS, CallArgumentError, remote_call
from openeta_exp.domain.artifact import Artifact, ArtifactTree
from openeta_exp.domain.decision import CallTools, Decision, Finish
from openeta_exp.domain.episode import Cleanup, CleanupStatus
from openeta_exp.domain.evidence import EnvironmentReceipt
from openeta_exp.domain.identity import Digest, ExecutionId, JsonObject, SessionId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.memory import SessionMemory
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.observation import CameraFrame, Intrinsics, Observation, RobotState
from openeta_exp.domain.supervision import OnNeedHuman
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult, ToolSpec, refused
from openeta_exp.domain.trace import TurnTrace
from openeta_exp.domain.turn import TurnContext
from openeta_exp.engine.episode import EpisodeWorld
from openeta_exp.engine.interaction import NobodyAnswers
from openeta_exp.engine.supervision import RuntimeChecksGate
from openeta_exp.errors import SimulatorError
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.guidance import Guidance
from openeta_exp.ports.planner import Planner, PlannerTurn
from openeta_exp.ports.simulator import Simulator
from openeta_exp.ports.supervision import ActionGate

MOVE = ToolCall(name="move_to", arguments={"target_pose": {"x": 0.1, "y": 0.0, "z": 0.2}})
OPEN = ToolCall(name="gripper_control", arguments={"position": 1})
OBSERVE = ToolCall(name="observe")


def calls(*several: ToolCall) -> CallTools:
    return CallTools(calls=several)


def view(*, success_at_reset: bool = False, step: int = 0) -> Observation:
    frame = CameraFrame(
        frame_id="agentview",
        width=1,
        height=1,
        rgb_png=b"png %d" % step,
        depth_png=None,
        intrinsics=Intrinsics(fx=1, fy=1, cx=0, cy=0),
        world_from_camera=((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
    )
    return Observation(
        task="",
        cameras=(frame,),
        robot=RobotState(
            eef_xyz_m=(0.0, 0.0, 0.3), eef_quat_xyzw=(1.0, 0.0, 0.0, 0.0), gripper_openness=1.0
        ),
        success_at_reset=success_at_reset,
        state_digest=f"{step:064d}",
        facts={"backend": "memory"},
    )


@dataclass
class Scene:
    """One environment in memory. Every hook may raise or wait instead of answering.

    Attributes:
        solved_by: Number of world-changing calls after which the checker is satisfied; 0 never.
        ends_by: Number of such calls after which the episode is over, satisfied or not; 0 never.
        rewards_once: Only the reply to a call that satisfied the checker says so.
        before: Called with the name of each operation before it runs.
    """

    execution_id: ExecutionId
    solved_by: int = 1
    ends_by: int = 0
    rewards_once: bool = False
    success_at_reset: bool = False
    shows: bool = True
    collides_at: frozenset[int] = frozenset()
    before: Callable[[str], object] = lambda name: None
    acted: int = 0
    observed: int = 0
    closes: int = 0
    receipts: int = 0
    closed: Cleanup | None = None

    async def reset(self) -> Observation:
        await self._enter("reset")
        self.acted = 0
        return view(success_at_reset=self.success_at_reset)

    async def observe(self) -> ToolResult:
        await self._enter("observe")
        self.observed += 1
        return self._result(OBSERVE, ToolEffect.READ_ONLY, shows=True)

    async def call(self, call: ToolCall) -> ToolResult:
        try:
            remote_call(call)
        except CallArgumentError as problem:
            return refused(
                call,
                ToolEffect.WORLD_MUTATING,
                code="simulator_mcp_argument_error",
                message=str(problem),
            )
        self.acted += 1
        await self._enter(call.name)
        return self._result(call, ToolEffect.WORLD_MUTATING, shows=self.shows)

    async def close(self) -> Cleanup:
        if self.closed is None:
            self.closes += 1
            self.closed = Cleanup(status=CleanupStatus.CLOSED)
            try:
                await self._enter("close")
            except SimulatorError as error:
                self.closed = Cleanup(status=CleanupStatus.FAILED, message=str(error))
        return self.closed

    async def _enter(self, name: str) -> None:
        waiting = self.before(name)
        if isinstance(waiting, anyio.Event):
            await waiting.wait()
        elif isinstance(waiting, Exception):
            # A copy, or the traceback and this frame would keep each other alive.
            raise copy(waiting)
        await anyio.lowlevel.checkpoint()

    def _result(self, call: ToolCall, effect: ToolEffect, *, shows: bool) -> ToolResult:
        solved = 0 < self.solved_by <= self.acted
        acting = effect is ToolEffect.WORLD_MUTATING
        receipt = EnvironmentReceipt(
            execution_id=self.execution_id,
            handle="h",
            call_index=self.receipts,
            tool=call.name,
            reward=1.0 if solved and (acting or not self.rewards_once) else 0.0,
            terminated=solved or 0 < self.ends_by <= self.acted,
            truncated=False,
            success_at_reset=self.success_at_reset,
            collision=acting and self.acted in self.collides_at,
        )
        self.receipts += 1
        return ToolResult(
            call=call,
            effect=effect,
            success=True,
            outputs={"reward": receipt.reward},
            observation=view(step=self.acted) if shows else None,
            receipt=receipt,
        )


class Scenes:
    """A simulator of such scenes; keeps them for the test to look at."""

    def __init__(self, prepare: Callable[[Scene, EpisodeSpec], None] = lambda s, e: None) -> None:
        self.opened: list[Scene] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._prepare = prepare

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return TOOLS

    async def describe(self) -> JsonObject:
        return {"backend": "memory"}

    async def knows(self, env_id: str) -> bool:
        return True

    @asynccontextmanager
    async def open(self, spec: EpisodeSpec, *, execution_id: ExecutionId) -> AsyncIterator[Scene]:
        scene = Scene(execution_id)
        self._prepare(scene, spec)
        await scene._enter("create")
        self.opened.append(scene)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            yield scene
        finally:
            self.in_flight -= 1
            with anyio.CancelScope(shield=True):
                await scene.close()

    async def aclose(self) -> None: ...


Answer = Decision | None | Exception


class Saying:
    """A planner that gives the same answers in every episode, the last one for ever."""

    prompt_digest = "0" * 64
    scripted = True

    def __init__(self, *answers: Answer, tokens: int = 10) -> None:
        self._answers = answers
        self._tokens = tokens
        self.contexts: list[TurnContext] = []

    def start(
        self, spec: EpisodeSpec, *, tree: ArtifactTree, tools: tuple[ToolSpec, ...]
    ) -> _Speech:
        return _Speech(self, iter(self._answers), self._tokens)


@dataclass
class _Speech:
    planner: Saying
    answers: Iterable[Answer]
    tokens: int
    last: Answer = field(default_factory=lambda: Finish())

    async def decide(self, context: TurnContext) -> PlannerTurn:
        self.planner.contexts.append(context)
        self.last = next(iter(self.answers), self.last)
        if isinstance(self.last, Exception):
            raise copy(self.last)
        await anyio.lowlevel.checkpoint()
        return PlannerTurn(
            decision=self.last,
            errors=() if self.last is not None else ("nonsense",),
            usage=TokenUsage(total_tokens=self.tokens),
            requests=1 if self.last is not None else 3,
            context_characters=100,
        )


class Logs:
    """Session logs in memory."""

    def __init__(self) -> None:
        self.traces: list[TurnTrace] = []
        self.closed = 0
        self._tree = ArtifactTree()
        self._memory = SessionMemory()

    def open(self, session_id: SessionId, tree: ArtifactTree) -> Logs:
        self._tree = tree
        return self

    def turn(self, trace: TurnTrace, *, views: Iterable[Observation] = ()) -> None:
        self.traces.append(trace)

    def tree(self) -> ArtifactTree:
        return self._tree

    def write(self, artifact: Artifact) -> None:
        self._tree = self._tree.with_changes([artifact])

    def memory(self) -> SessionMemory:
        return self._memory

    def keep_memory(self, memory: SessionMemory) -> None:
        self._memory = memory

    def sandbox(self) -> Path:
        raise AssertionError("these worlds run no code")

    def reopen(self, session_id: SessionId) -> Logs:
        return self

    def close(self) -> None:
        self.closed += 1


def world(
    planner: Planner,
    *,
    scenes: Simulator | None = None,
    gate: ActionGate | None = None,
    guidance: Guidance | None = None,
    clock: Clock | None = None,
    logs: Logs | None = None,
    on_need_human: OnNeedHuman = OnNeedHuman.FAIL,
    arm_digest: str = "a" * 64,
) -> EpisodeWorld:
    numbers = itertools.count()
    return EpisodeWorld(
        simulator=scenes or Scenes(),
        planner=planner,
        perception=None,
        gate=gate or RuntimeChecksGate(),
        guidance=guidance or NobodyAnswers(),
        sessions=logs or Logs(),
        clock=clock or SystemClock(),
        tree=ArtifactTree(),
        arm_digest=Digest(arm_digest),
        on_need_human=on_need_human,
        new_execution_id=lambda: ExecutionId(f"{next(numbers):032d}"),
    )


def broken(
    *names: str, code: str = "simulator_mcp_call_failed", unknown: bool = False
) -> Callable[[str], object]:
    """A hook that breaks the named operations."""
    return lambda name: (
        SimulatorError(f"{name} broke", code=code, outcome_unknown=unknown)
        if name in names
        else None
    )


def prepared(**fields: object) -> Callable[[Scene, EpisodeSpec], None]:
    """Give every scene these attributes."""

    def prepare(scene: Scene, spec: EpisodeSpec) -> None:
        for name, value in fields.items():
            setattr(scene, name, value)

    return prepare


def decisions(*several: Sequence[ToolCall]) -> list[Decision]:
    return [CallTools(calls=tuple(each)) for each in several]
