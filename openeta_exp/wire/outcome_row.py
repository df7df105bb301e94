"""One episode in the result file, `outcomes[]` of `openeta.parallel_episode_batch.v2`."""

from __future__ import annotations

from typing import Literal, assert_never

from openeta_exp.domain.budget import Budget
from openeta_exp.domain.episode import (
    Assistance,
    Cleanup,
    EpisodeFailure,
    EpisodeOutcome,
    EpisodeResult,
    EpisodeUsage,
    GraspAttempt,
    Interaction,
)
from openeta_exp.domain.identity import Digest, EpisodeId, ExecutionId, JsonObject, SessionId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import UsageSource
from openeta_exp.domain.record import Record
from openeta_exp.domain.stop import FailureClass, StopReason
from openeta_exp.domain.summary import EpisodeStatus, status_of

_UNITS = {
    StopReason.EPISODE_TIMEOUT: "seconds",
    StopReason.TOKEN_LIMIT_EXCEEDED: "tokens",
    StopReason.TOOL_CALL_LIMIT_EXCEEDED: "tool_calls",
    StopReason.MAX_TURNS: "turns",
}


class _Assistance(Record):
    assisted: bool
    human_intervention_count: int
    guidance_intervention_count: int


class _Interaction(Record):
    session_id: SessionId
    interaction_id: str
    question: str
    terminal: Literal[False] = False
    resume_mode: Literal["restart_environment"] = "restart_environment"


class _Error(Record):
    """What went wrong. Limits carry numbers, breakages a message."""

    type: str
    code: str
    message: str = ""
    limit: float | None = None
    observed: float | None = None
    unit: str | None = None
    violations: tuple[str, ...] = ()
    """Of an episode that broke after them; a result names them in its episode."""


class _Empty(Record):
    """`{}`: nothing to tell."""


class _Budget(Record):
    max_tool_calls: int
    timeout_s: float
    max_total_tokens: int


class _MetadataUsage(Record):
    tool_call_count: int
    total_tokens: int
    token_usage_sources: dict[UsageSource, int]
    elapsed_s: float
    human_wait_s: float
    guidance_intervention_count: int


class _MetadataAssistance(Record):
    guidance_intervention_count: int
    agent_assisted: bool
    human_assisted: bool


class _Metadata(Record):
    environment: JsonObject
    execution_id: ExecutionId
    turn_index: int
    max_turns: int
    remaining_turns: int
    budget: _Budget
    usage: _MetadataUsage
    assistance: _MetadataAssistance
    failure_reason: _Error | _Empty
    stop_reason: StopReason
    waiting_for_human: bool


class _Episode(Record):
    task: str
    session_id: SessionId
    num_steps: int
    terminated: bool
    truncated: bool
    metadata: _Metadata
    steps: tuple[()] = ()
    trace: str
    """Path relative to this file."""
    reward: float
    success_at_reset: bool
    claims_success: bool | None
    grasps: tuple[GraspAttempt, ...]
    violations: tuple[str, ...]


class OutcomeRow(Record):
    """One episode of the manifest."""

    index: int
    """Position in the manifest, from 0."""
    episode_id: EpisodeId
    env_id: str
    seed: int
    repeat: int
    status: EpisodeStatus
    failure_class: FailureClass
    stop_reason: StopReason | None
    """None if the turn loop never got to end: something broke, see `error`."""
    duration_s: float
    limits: Budget
    session_id: SessionId
    execution_id: ExecutionId
    spec_digest: Digest
    arm_digest: Digest
    episode: _Episode | None
    assistance: _Assistance
    interaction: _Interaction | _Empty
    cleanup: Cleanup
    error: _Error | _Empty
    usage: EpisodeUsage
    started_at_s: float
    environment: JsonObject
    initial_state_digest: str | None
    initial_frame_sha256: dict[str, str]


def outcome_row(index: int, spec: EpisodeSpec, outcome: EpisodeOutcome) -> OutcomeRow:
    """Lay one outcome out under the label its manifest gives it."""
    helped = outcome.assistance
    episode: _Episode | None = None
    stop_reason: StopReason | None = None
    interaction: _Interaction | _Empty = _Empty()
    error: _Error | _Empty
    match outcome:
        case EpisodeResult():
            episode, stop_reason = _episode(spec, outcome), outcome.stop_reason
            interaction = _interaction(outcome)
            error = _Empty() if status_of(outcome) is not EpisodeStatus.FAIL else _reason(outcome)
        case EpisodeFailure(error_type=error_type, code=code, message=message):
            error = _Error(
                type=error_type, code=code, message=message, violations=outcome.violations
            )
        case _:
            assert_never(outcome)
    return OutcomeRow(
        index=index,
        episode_id=spec.episode_id,
        env_id=spec.env_id,
        seed=spec.seed,
        repeat=spec.repeat,
        status=status_of(outcome),
        failure_class=outcome.failure_class,
        stop_reason=stop_reason,
        duration_s=outcome.usage.duration_s,
        limits=spec.budget,
        session_id=outcome.session_id,
        execution_id=outcome.execution_id,
        spec_digest=outcome.spec_digest,
        arm_digest=outcome.arm_digest,
        episode=episode,
        assistance=_Assistance(
            assisted=helped.assisted,
            human_intervention_count=helped.human_interventions,
            guidance_intervention_count=helped.guidance_interventions,
        ),
        interaction=interaction,
        cleanup=outcome.cleanup,
        error=error,
        usage=outcome.usage,
        started_at_s=outcome.started_at_s,
        environment=outcome.environment,
        initial_state_digest=outcome.initial_state_digest,
        initial_frame_sha256=outcome.initial_frame_sha256,
    )


def _episode(spec: EpisodeSpec, result: EpisodeResult) -> _Episode:
    truncated = result.stop_reason in _UNITS
    waiting = status_of(result) is EpisodeStatus.NEED_HUMAN
    return _Episode(
        task=spec.task,
        session_id=result.session_id,
        num_steps=result.usage.turns,
        terminated=not (truncated or waiting),
        truncated=truncated,
        metadata=_metadata(spec, result),
        trace=f"sessions/{result.session_id}/trace.jsonl",
        reward=result.reward,
        success_at_reset=result.success_at_reset,
        claims_success=result.claims_success,
        grasps=result.grasps,
        violations=result.violations,
    )


def _metadata(spec: EpisodeSpec, result: EpisodeResult) -> _Metadata:
    used, budget, helped = result.usage, spec.budget, result.assistance
    plain = result.success and result.limit is None and result.observed is None
    return _Metadata(
        environment=result.environment,
        execution_id=result.execution_id,
        turn_index=used.turns,
        max_turns=budget.max_turns,
        remaining_turns=max(0, budget.max_turns - used.turns),
        budget=_Budget(
            max_tool_calls=budget.max_tool_calls,
            timeout_s=budget.timeout_s,
            max_total_tokens=budget.max_total_tokens,
        ),
        usage=_MetadataUsage(
            tool_call_count=used.tool_calls,
            total_tokens=used.tokens.total_tokens,
            token_usage_sources=used.tokens.sources,
            elapsed_s=used.duration_s,
            human_wait_s=used.human_wait_s,
            guidance_intervention_count=helped.guidance_interventions,
        ),
        assistance=_MetadataAssistance(
            guidance_intervention_count=helped.guidance_interventions,
            agent_assisted=helped.guidance_interventions > 0 and not helped.human_interventions,
            human_assisted=helped.human_interventions > 0,
        ),
        failure_reason=_Empty() if plain else _reason(result),
        stop_reason=result.stop_reason,
        waiting_for_human=status_of(result) is EpisodeStatus.NEED_HUMAN,
    )


def _reason(result: EpisodeResult) -> _Error:
    unit = _UNITS.get(result.stop_reason)
    kind = "EpisodeResourceLimit" if unit else "EpisodeNotSolved"
    code: str = result.stop_reason
    if result.failure_class is FailureClass.INVALID:
        kind, code = "EpisodeInvalid", "success_at_reset"
    return _Error(type=kind, code=code, limit=result.limit, observed=result.observed, unit=unit)


def _interaction(result: EpisodeResult) -> _Interaction | _Empty:
    asked = result.interaction
    if asked is None:
        return _Empty()
    return _Interaction(
        session_id=result.session_id,
        interaction_id=asked.interaction_id,
        question=asked.question,
    )


def outcome_of(row: OutcomeRow) -> EpisodeOutcome:
    """The outcome a row was made from."""
    common = {
        "episode_id": row.episode_id,
        "spec_digest": row.spec_digest,
        "arm_digest": row.arm_digest,
        "repeat": row.repeat,
        "session_id": row.session_id,
        "execution_id": row.execution_id,
        "usage": row.usage,
        "assistance": Assistance(
            guidance_interventions=row.assistance.guidance_intervention_count,
            human_interventions=row.assistance.human_intervention_count,
        ),
        "cleanup": row.cleanup,
        "initial_state_digest": row.initial_state_digest,
        "initial_frame_sha256": row.initial_frame_sha256,
        "environment": row.environment,
        "started_at_s": row.started_at_s,
    }
    match row.episode, row.error, row.interaction:
        case None, _Error() as error, _:
            return EpisodeFailure.model_validate(
                common
                | {
                    "failure_class": row.failure_class,
                    "error_type": error.type,
                    "code": error.code,
                    "message": error.message,
                    "violations": error.violations,
                }
            )
        case _Episode() as episode, _, interaction:
            reason = episode.metadata.failure_reason
            return EpisodeResult.model_validate(
                common
                | {
                    "success": row.status is EpisodeStatus.SUCCESS,
                    "stop_reason": episode.metadata.stop_reason,
                    "claims_success": episode.claims_success,
                    "success_at_reset": episode.success_at_reset,
                    "limit": reason.limit if isinstance(reason, _Error) else None,
                    "observed": reason.observed if isinstance(reason, _Error) else None,
                    "reward": episode.reward,
                    "grasps": episode.grasps,
                    "interaction": _asked(interaction),
                    "violations": episode.violations,
                }
            )
        case _:
            raise ValueError(f"{row.episode_id}: an episode that broke needs an error")


def _asked(interaction: _Interaction | _Empty) -> Interaction | None:
    if isinstance(interaction, _Empty):
        return None
    return Interaction(interaction_id=interaction.interaction_id, question=interaction.question)
