"""One episode from reset to verdict: observe, decide, supervise, act, verify, record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.episode import (
    Cleanup,
    CleanupStatus,
    EpisodeFailure,
    EpisodeOutcome,
    EpisodeResult,
)
from openeta_exp.domain.identity import Digest, ExecutionId, SessionId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.skill import relevance
from openeta_exp.domain.stop import FailureClass, StopReason
from openeta_exp.domain.supervision import OnNeedHuman
from openeta_exp.engine.episode_record import EpisodeRecord
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.engine.host_tools import HostTools
from openeta_exp.engine.memory_tools import MemoryTools
from openeta_exp.engine.pause import KeepPaused, Resumption
from openeta_exp.engine.python_tool import PythonTools
from openeta_exp.engine.skill_changes import SkillChanges, SkillTools
from openeta_exp.engine.turn import Ending, TurnLoop
from openeta_exp.errors import (
    InfrastructureError,
    PerceptionError,
    PolicyError,
    ProviderError,
    SimulatorError,
    StoreError,
)
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.guidance import Guidance
from openeta_exp.ports.perception import Perception
from openeta_exp.ports.planner import Planner
from openeta_exp.ports.sandbox import Sandbox
from openeta_exp.ports.session_log import SessionLog, SessionLogs
from openeta_exp.ports.simulator import Simulator, SimulatorSession
from openeta_exp.ports.supervision import ActionGate


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTools:
    """What an agent may do besides seeing and acting.

    Attributes:
        memory: Whether it may keep values within its session.
        skill_changes: None if it may not have skills written.
        sandbox: Where its Python runs; None if it has none.
        enforce_allowed_tools: Whether the skill in use decides which tools may be called.
    """

    memory: bool = True
    skill_changes: SkillChanges | None = None
    sandbox: Sandbox | None = None
    enforce_allowed_tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeWorld:
    """Everything an episode needs, shared by all episodes of one arm.

    Attributes:
        perception: None if no perception service is configured; its tools are then not offered.
        new_execution_id: A fresh id per attempt.
        keep_paused: Where an episode that waits for a person is put, so that it can be resumed.
    """

    simulator: Simulator
    planner: Planner
    perception: Perception | None
    gate: ActionGate
    guidance: Guidance
    sessions: SessionLogs
    clock: Clock
    tree: ArtifactTree
    arm_digest: Digest
    on_need_human: OnNeedHuman
    new_execution_id: Callable[[], ExecutionId]
    agent_tools: AgentTools = field(default_factory=AgentTools)
    keep_paused: KeepPaused | None = None


async def run_episode(
    spec: EpisodeSpec, *, world: EpisodeWorld, resumption: Resumption | None = None
) -> EpisodeOutcome:
    """Run one episode and return its outcome, with everything it spent, even if it broke.

    Args:
        resumption: Goes on with a session that waited for a person: from the task's initial state
            with fresh turns and a fresh clock, but with what was already spent and learned.

    Raises:
        StoreError: Its record could not be written; results that cannot be kept must stop the run.
    """
    execution_id = world.new_execution_id()
    record = EpisodeRecord(
        spec=spec,
        arm_digest=world.arm_digest,
        execution_id=execution_id,
        session_id=SessionId(f"{_slug(spec.episode_id)}-{execution_id[:8]}"),
        started_at_s=world.clock.unix_s(),
        started_s=world.clock.monotonic_s(),
    )
    if resumption is not None:
        resumption.carry_over(record)
    try:
        ending = await _within_deadline(spec, world=world, record=record, resumption=resumption)
        _check_verdict(ending, record)
    except StoreError:
        raise
    except InfrastructureError as error:
        if isinstance(error, ProviderError):
            # The turn that it ended is not on record, and some of its answers were charged.
            record.tokens += TokenUsage.charged_by(error)
        if record.is_solved():
            # What breaks after the checker has spoken takes nothing back.
            return _result(record, Ending(reason=StopReason.ENVIRONMENT_SUCCESS), world=world)
        return _failure(record, error, world=world)
    return _result(record, ending, world=world)


async def _within_deadline(
    spec: EpisodeSpec,
    *,
    world: EpisodeWorld,
    record: EpisodeRecord,
    resumption: Resumption | None,
) -> Ending:
    """The wall clock runs over create, reset, model and tools; what comes later is refused."""
    with anyio.move_on_after(spec.budget.timeout_s) as record.deadline:
        return await _in_environment(spec, world=world, record=record, resumption=resumption)
    return Ending(
        reason=StopReason.EPISODE_TIMEOUT,
        limit=spec.budget.timeout_s,
        observed=world.clock.monotonic_s() - record.started_s - record.human_wait_s,
    )


def _check_verdict(ending: Ending, record: EpisodeRecord) -> None:
    """Raises: SimulatorError: The episode would count as unsolved, and may have been solved."""
    if ending.reason is not StopReason.NEED_HUMAN and record.verdict_is_lost():
        raise SimulatorError(
            "the reply to a motion was lost, and with it, perhaps, the checker's verdict: no "
            "later answer says that the episode went on",
            code="verdict_lost",
        )


async def _in_environment(
    spec: EpisodeSpec,
    *,
    world: EpisodeWorld,
    record: EpisodeRecord,
    resumption: Resumption | None,
) -> Ending:
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            world.simulator.open(spec, execution_id=record.execution_id)
        )
        record.cleanup = Cleanup(status=CleanupStatus.FAILED, message="close was not reached")
        stack.push_async_callback(_close, session, record)
        host = record.begin(await session.reset())
        if host.observation.success_at_reset:
            return Ending(reason=StopReason.ENVIRONMENT_SUCCESS)
        ending = await _turns(session, host, world=world, record=record, resumption=resumption)
        record.stand()
        if ending.interaction is not None and world.keep_paused is not None:
            # Kept before the environment is closed: whatever ends this process, the question stays.
            world.keep_paused(_result(record, ending, world=world), spec=spec, asked=record.asked)
        return ending


async def _turns(
    session: SimulatorSession,
    host: EpisodeHost,
    *,
    world: EpisodeWorld,
    record: EpisodeRecord,
    resumption: Resumption | None,
) -> Ending:
    if resumption is None:
        log = world.sessions.open(record.session_id, world.tree)
        tree = world.tree
    else:
        log = world.sessions.reopen(record.session_id)
        tree = log.tree()
        resumption.deliver(host, log)
    try:
        ranked = sorted(tree.skills(), key=lambda skill: -relevance(skill, record.spec.task))
        tools = HostTools(
            session=session,
            perception=world.perception,
            host=host,
            skills=tuple(ranked),
            simulator_tools=world.simulator.tools,
            skill_in_use=ranked[0].name if ranked else None,
            enforce_allowed_tools=world.agent_tools.enforce_allowed_tools,
        )
        _furnish(tools, host, log, world=world, record=record)
        planner = world.planner.start(record.spec, tree=tree, tools=tools.specs)
        loop = TurnLoop(
            session=session,
            planner=planner,
            tools=tools,
            host=host,
            record=record,
            gate=world.gate,
            guidance=world.guidance,
            on_need_human=world.on_need_human,
            clock=world.clock,
            log=log,
        )
        return await loop.run()
    finally:
        log.close()


def _furnish(
    tools: HostTools,
    host: EpisodeHost,
    log: SessionLog,
    *,
    world: EpisodeWorld,
    record: EpisodeRecord,
) -> None:
    """Offer what the agent may do besides seeing and acting."""
    offered = world.agent_tools
    if offered.memory:
        tools.add(MemoryTools(host, log))
    if offered.sandbox is not None:
        tools.add(PythonTools(offered.sandbox, host, log))
    if offered.skill_changes is not None:
        tools.add(
            SkillTools(
                offered.skill_changes,
                record=record,
                log=log,
                clock=world.clock,
                offer=tools.offer,
            )
        )


async def _close(session: SimulatorSession, record: EpisodeRecord) -> None:
    with anyio.CancelScope(shield=True):
        record.cleanup = await session.close()


def _result(record: EpisodeRecord, ending: Ending, *, world: EpisodeWorld) -> EpisodeResult:
    host = record.host
    at_reset = host is not None and host.initial_observation.success_at_reset
    return EpisodeResult(
        **record.facts(now_s=world.clock.monotonic_s()),
        success=record.is_solved(),
        stop_reason=ending.reason,
        claims_success=ending.claims_success,
        success_at_reset=at_reset,
        limit=ending.limit,
        observed=ending.observed,
        reward=0.0 if host is None else host.reward,
        grasps=() if host is None else tuple(host.grasps),
        interaction=ending.interaction,
    )


def _failure(
    record: EpisodeRecord, error: InfrastructureError, *, world: EpisodeWorld
) -> EpisodeFailure:
    return EpisodeFailure(
        **record.facts(now_s=world.clock.monotonic_s()),
        failure_class=failure_class(error),
        error_type=type(error).__name__,
        code=error.code,
        message=str(error),
    )


def failure_class(error: InfrastructureError) -> FailureClass:
    """Which part of the world broke."""
    match error:
        case ProviderError():
            return FailureClass.PROVIDER
        case PerceptionError():
            return FailureClass.PERCEPTION
        case PolicyError():
            return FailureClass.POLICY_SERVER
        case StoreError():
            return FailureClass.STORE
        case SimulatorError():
            return FailureClass.SIMULATOR
        case _:
            raise TypeError(f"{type(error).__name__} has no failure class") from error


def _slug(episode_id: str) -> str:
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in episode_id)
    return kept.strip("-")[:48] or "episode"
