"""How an episode ended. Losing is a result; breaking is a failure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeGuard

from pydantic import Field

from openeta_exp.domain.identity import Digest, EpisodeId, ExecutionId, JsonObject, SessionId
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.record import Record
from openeta_exp.domain.stop import FailureClass, StopReason, failure_class_of


class CleanupStatus(StrEnum):
    """Whether the environment was given back. Never changes an outcome."""

    CLOSED = "closed"
    NOT_OPENED = "not_opened"
    FAILED = "cleanup_failed"


class Cleanup(Record):
    status: CleanupStatus
    message: str = ""


class Assistance(Record):
    """Help the agent got. An assisted success is reported apart from an autonomous one."""

    guidance_interventions: int = Field(default=0, ge=0)
    human_interventions: int = Field(default=0, ge=0)

    @property
    def assisted(self) -> bool:
        return self.guidance_interventions > 0 or self.human_interventions > 0


class EpisodeUsage(Record):
    """What the episode spent."""

    turns: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)
    tokens: TokenUsage = TokenUsage()
    model_requests: int = Field(default=0, ge=0)
    validation_retries: int = Field(default=0, ge=0)
    denied_calls: int = Field(default=0, ge=0)
    """World-mutating calls that supervision refused."""
    duration_s: float = Field(default=0.0, ge=0)
    human_wait_s: float = Field(default=0.0, ge=0)
    context_characters_max: int = Field(default=0, ge=0)
    """The longest request text the planner was sent."""


class Interaction(Record):
    """A question that waits for a person."""

    interaction_id: str
    question: str


class GraspAttempt(Record):
    """One grasp as it was carried out: what an author learns from."""

    target: str
    candidate_rank: int
    width_m: float
    target_extents_m: tuple[float, float, float]
    """Size of the visible target along approach, closing and binormal axis."""
    reached_target: bool
    gripper_openness_after_close: float | None = None
    lifted: bool | None = None


class _Ended(Record):
    """What every outcome carries, verdict or not."""

    episode_id: EpisodeId
    spec_digest: Digest
    arm_digest: Digest
    repeat: int = 0
    session_id: SessionId
    execution_id: ExecutionId
    usage: EpisodeUsage = EpisodeUsage()
    assistance: Assistance = Assistance()
    cleanup: Cleanup
    initial_state_digest: str | None = None
    """Digest of the simulator state after reset: the same seed gives the same one."""
    initial_frame_sha256: dict[str, str] = Field(default_factory=dict)
    """Digest of each camera's first image."""
    environment: JsonObject = Field(default_factory=dict)
    """What the simulator said of itself: backend, versions, GL, quality, initial state."""
    started_at_s: float = 0.0
    """Unix time."""
    violations: tuple[str, ...] = ()
    """Safety or contract violations, by code; also of an episode that broke after them."""


class EpisodeResult(_Ended):
    """An episode with a verdict."""

    kind: Literal["result"] = "result"
    success: bool
    """True only on the environment checker's word, never on the planner's."""
    stop_reason: StopReason
    claims_success: bool | None = None
    """What the planner claimed when it finished; None if it made no claim."""
    success_at_reset: bool = False
    """The checker was satisfied before anything was done: flagged, never counted."""
    limit: float | None = None
    """The budget that was exceeded, if one was."""
    observed: float | None = None
    reward: float = 0.0
    """Largest reward of this execution."""
    grasps: tuple[GraspAttempt, ...] = ()
    interaction: Interaction | None = None
    """Set while the episode waits for a person."""

    @property
    def failure_class(self) -> FailureClass:
        if self.success:
            return FailureClass.NONE
        return FailureClass.INVALID if self.success_at_reset else failure_class_of(self.stop_reason)


class EpisodeFailure(_Ended):
    """No verdict, because something broke. Says nothing about the agent."""

    kind: Literal["failure"] = "failure"
    failure_class: FailureClass
    error_type: str
    code: str
    message: str


EpisodeOutcome = Annotated[EpisodeResult | EpisodeFailure, Field(discriminator="kind")]
"""Exactly one per `EpisodeSpec`. Match on the class; never test for missing fields."""


def says_something(outcome: EpisodeOutcome) -> TypeGuard[EpisodeResult]:
    """Whether an outcome says anything about the agent: nothing broke, and there was something to
    solve."""
    return isinstance(outcome, EpisodeResult) and not outcome.success_at_reset
