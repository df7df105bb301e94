"""A worker's answer about one attempt at an episode -> the outcome the journal keeps."""

from __future__ import annotations

import uuid
from typing import TypedDict

from openeta_exp.catalog.messages import BenchmarkEvidence, EpisodeReport, WorkerFailure
from openeta_exp.domain.episode import (
    Cleanup,
    CleanupStatus,
    EpisodeFailure,
    EpisodeOutcome,
    EpisodeResult,
    EpisodeUsage,
)
from openeta_exp.domain.identity import Digest, EpisodeId, ExecutionId, JsonObject, SessionId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.stop import StopReason


class _Shared(TypedDict):
    """Fields that a result and a failure have in common."""

    episode_id: EpisodeId
    spec_digest: Digest
    arm_digest: Digest
    repeat: int
    session_id: SessionId
    execution_id: ExecutionId
    usage: EpisodeUsage
    cleanup: Cleanup
    initial_state_digest: str | None
    initial_frame_sha256: dict[str, str]
    environment: JsonObject
    started_at_s: float


class Attempt:
    """One run of one spec under one arm, from its start to its outcome."""

    def __init__(self, spec: EpisodeSpec, arm: Digest, *, started_at_s: float) -> None:
        self._spec = spec
        self._arm = arm
        self._started_at_s = started_at_s
        self.session_id = SessionId(f"s-{uuid.uuid4().hex}")
        self.execution_id = ExecutionId(f"x-{uuid.uuid4().hex}")

    def outcome(self, reply: JsonObject, *, duration_s: float) -> EpisodeOutcome:
        """The outcome a worker's reply amounts to."""
        failure = reply.get("error")
        if failure is not None:
            return self.broke(WorkerFailure.model_validate(failure), duration_s=duration_s)
        report = EpisodeReport.from_worker(reply, scenario=self._spec.scenario)
        if report.failure is not None:
            return self.broke(report.failure, duration_s=duration_s, report=report)
        steps, limit = report.evidence.steps, self._spec.budget.max_turns
        reason = _stop_reason(report)
        hit_limit = reason is StopReason.MAX_TURNS
        return EpisodeResult(
            **self._shared(duration_s, report),
            success=report.success,
            stop_reason=reason,
            reward=report.reward,
            limit=float(limit) if hit_limit else None,
            observed=float(steps) if hit_limit else None,
        )

    def broke(
        self, failure: WorkerFailure, *, duration_s: float, report: EpisodeReport | None = None
    ) -> EpisodeFailure:
        """An outcome without a verdict."""
        return EpisodeFailure(
            **self._shared(duration_s, report),
            failure_class=failure.failure_class,
            error_type=failure.error_type,
            code=failure.code,
            message=failure.message,
        )

    def _shared(self, duration_s: float, report: EpisodeReport | None) -> _Shared:
        evidence = report.evidence if report else BenchmarkEvidence(scenario=self._spec.scenario)
        return {
            "episode_id": self._spec.episode_id,
            "spec_digest": self._spec.content_digest,
            "arm_digest": self._arm,
            "repeat": self._spec.repeat,
            "session_id": self.session_id,
            "execution_id": self.execution_id,
            "usage": EpisodeUsage(
                turns=evidence.steps, tool_calls=evidence.steps, duration_s=duration_s
            ),
            # The adapter stays open for the next episode; its process cleans up at the end.
            "cleanup": Cleanup(status=CleanupStatus.CLOSED),
            "initial_state_digest": report.initial_digest if report else None,
            "initial_frame_sha256": report.initial_images if report else {},
            "environment": {"benchmark": evidence.model_dump(mode="json", exclude_defaults=True)},
            "started_at_s": self._started_at_s,
        }


def _stop_reason(report: EpisodeReport) -> StopReason:
    if report.success:
        return StopReason.ENVIRONMENT_SUCCESS
    if report.evidence.finished:
        return StopReason.ENVIRONMENT_TERMINATED
    return StopReason.MAX_TURNS


def benchmark_evidence(outcome: EpisodeOutcome) -> BenchmarkEvidence | None:
    """What a catalog's episode left in its outcome; None for an outcome of another kind."""
    found = outcome.environment.get("benchmark")
    return None if found is None else BenchmarkEvidence.model_validate(found)
