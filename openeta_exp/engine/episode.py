"""One episode from reset to verdict: observe, decide, supervise, act, verify, record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.episode import (
    Cleanup,
    CleanupStatus,
    EpisodeFailure,
    EpisodeOutcome,
    EpisodeResult,
)
from openeta_exp.domain.evidence import checker_success
from openeta_exp.domain.identity import Digest, ExecutionId, SessionId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.stop import FailureClass, StopReason
from openeta_exp.domain.supervision import OnNeedHuman
from openeta_exp.engine.episode_record import EpisodeRecord
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.engine.host_tools import HostTools
from openeta_exp.engine.interaction import Guidance
from openeta_exp.engine.supervision import ActionGate
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
from openeta_exp.ports.perception import Perception
from openeta_exp.ports.planner import Planner
from openeta_exp.ports.session_log import SessionLogs
from openeta_exp.ports.simulator import Simulator, SimulatorSession


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeWorld:
    """Everything an episode needs, shared by all episodes of one arm.

    Attributes:
        perception: None if no perception service is configured; its tools are then not offered.
        new_execution_id: A fresh id per attempt.
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


async def run_episode(spec: EpisodeSpec, *, world: EpisodeWorld) -> EpisodeOutcome:
    """Run one episode and return its outcome, with everything it spent, even if it broke.

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
    try:
        ending = await _within_deadline(spec, world=world, record=record)
    except StoreError:
        raise
    except InfrastructureError as error:
        return _failure(record, error, world=world)
    return _result(record, ending, world=world)


async def _within_deadline(
    spec: EpisodeSpec, *, world: EpisodeWorld, record: EpisodeRecord
) -> Ending:
    """The wall clock runs over create, reset, model and tools; what comes later is refused."""
    with anyio.move_on_after(spec.budget.timeout_s):
        return await _in_environment(spec, world=world, record=record)
    return Ending(
        reason=StopReason.EPISODE_TIMEOUT,
        limit=spec.budget.timeout_s,
        observed=world.clock.monotonic_s() - record.started_s,
    )


async def _in_environment(
    spec: EpisodeSpec, *, world: EpisodeWorld, record: EpisodeRecord
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
        return await _turns(session, host, world=world, record=record)


async def _turns(
    session: SimulatorSession, host: EpisodeHost, *, world: EpisodeWorld, record: EpisodeRecord
) -> Ending:
    log = world.sessions.open(record.session_id, world.tree)
    try:
        tools = HostTools(
            session=session,
            perception=world.perception,
            host=host,
            skills=world.tree.skills(),
            simulator_tools=world.simulator.tools,
        )
        planner = world.planner.start(record.spec, tree=world.tree, tools=tools.specs)
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


async def _close(session: SimulatorSession, record: EpisodeRecord) -> None:
    with anyio.CancelScope(shield=True):
        record.cleanup = await session.close()


def _result(record: EpisodeRecord, ending: Ending, *, world: EpisodeWorld) -> EpisodeResult:
    host = record.host
    receipts = [] if host is None else host.receipts
    at_reset = host is not None and host.initial_observation.success_at_reset
    return EpisodeResult(
        **record.facts(now_s=world.clock.monotonic_s()),
        success=not at_reset and checker_success(receipts, record.execution_id),
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
