"""Batches, outcomes and the facts a journal keeps of them, as the engine would make them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openeta_exp.domain.episode import (
    Assistance,
    Cleanup,
    CleanupStatus,
    EpisodeFailure,
    EpisodeOutcome,
    EpisodeResult,
    EpisodeUsage,
)
from openeta_exp.domain.event import (
    Arm,
    BatchEnded,
    BatchStarted,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    Provenance,
)
from openeta_exp.domain.identity import Digest, EpisodeId, ExecutionId, SessionId
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.model import ModelRole, ProviderMetrics, TokenUsage, UsageSource
from openeta_exp.domain.stop import FailureClass, StopReason

AT_S = 1_790_000_000.0


def arm(label: str = "train", *, tree: str = "a", scripted: bool = True) -> Arm:
    return Arm(
        label=label,
        tree_digest=Digest(tree * 64),
        settings={"planner": {"model": "scripted-planner"}},
        scripted=scripted,
    )


def spec(index: int, *, repeat: int = 0) -> EpisodeSpec:
    return EpisodeSpec(
        episode_id=EpisodeId(f"episode-{index}"),
        env_id=f"openeta/tabletop_pick_{index % 3}-v0",
        task=f"pick up object {index % 3}",
        seed=index,
        repeat=repeat,
    )


def manifest(count: int) -> Manifest:
    return Manifest(episodes=tuple(spec(index) for index in range(count)))


def started(
    episodes: Manifest, *, of: Arm | None = None, batch_id: str = "exp-g000-train"
) -> BatchStarted:
    return BatchStarted(
        batch_id=batch_id,
        experiment_id="exp",
        generation=0,
        phase="train",
        arm=of or arm(),
        manifest=episodes,
        concurrency=4,
        config={
            "provider": {"kind": "scripted", "model": "scripted-planner"},
            "simulator": {"kind": "tabletop"},
        },
        provenance=Provenance(
            openeta_exp_version="0.1.0",
            git_commit="c" * 40,
            git_dirty=False,
            python="3.11.9",
            platform="Linux",
            packages={"mujoco": "3.17.0"},
            simulator={"backend": "tabletop", "gl": "egl", "quality": "fast"},
            perception={"kind": "embedded"},
            config_digest=Digest("d" * 64),
            manifest_digest=episodes.content_digest,
            prompt_digest=Digest("e" * 64),
        ),
        at_s=AT_S,
    )


def usage(index: int) -> EpisodeUsage:
    return EpisodeUsage(
        turns=9 + index % 3,
        tool_calls=12,
        tokens=TokenUsage(
            prompt_tokens=9000,
            completion_tokens=500,
            total_tokens=9500,
            sources={UsageSource.PROVIDER: 9},
        ),
        model_requests=9,
        duration_s=4.0 + index % 5,
    )


def won(
    of: EpisodeSpec,
    *,
    under: Arm | None = None,
    success: bool = True,
    stop_reason: StopReason | None = None,
    assistance: Assistance | None = None,
    success_at_reset: bool = False,
    attempt: int = 0,
) -> EpisodeResult:
    default = StopReason.ENVIRONMENT_SUCCESS if success else StopReason.MAX_TURNS
    return EpisodeResult(
        episode_id=of.episode_id,
        spec_digest=of.content_digest,
        arm_digest=(under or arm()).content_digest,
        repeat=of.repeat,
        session_id=SessionId(f"{of.episode_id}-{attempt}"),
        execution_id=ExecutionId(f"x-{of.episode_id}-{attempt}"),
        usage=usage(of.seed),
        assistance=assistance or Assistance(),
        cleanup=Cleanup(status=CleanupStatus.CLOSED),
        initial_state_digest="f" * 64,
        initial_frame_sha256={"agentview": "0" * 64},
        environment={"backend": "tabletop", "gl": "egl", "mujoco": "3.17.0"},
        started_at_s=AT_S,
        success=success,
        stop_reason=stop_reason or default,
        success_at_reset=success_at_reset,
        reward=1.0 if success else 0.0,
    )


def lost(of: EpisodeSpec, *, under: Arm | None = None, attempt: int = 0) -> EpisodeResult:
    return won(of, under=under, success=False, attempt=attempt)


def broke(
    of: EpisodeSpec,
    *,
    under: Arm | None = None,
    failure_class: FailureClass = FailureClass.PROVIDER,
    attempt: int = 0,
) -> EpisodeFailure:
    return EpisodeFailure(
        episode_id=of.episode_id,
        spec_digest=of.content_digest,
        arm_digest=(under or arm()).content_digest,
        repeat=of.repeat,
        session_id=SessionId(f"{of.episode_id}-{attempt}"),
        execution_id=ExecutionId(f"x-{of.episode_id}-{attempt}"),
        usage=EpisodeUsage(duration_s=0.5),
        cleanup=Cleanup(status=CleanupStatus.NOT_OPENED),
        started_at_s=AT_S,
        failure_class=failure_class,
        error_type="ProviderError",
        code="provider_unavailable",
        message="the endpoint did not answer",
    )


def ended(outcome: EpisodeOutcome, *, batch_id: str = "exp-g000-train") -> EpisodeEnded:
    return EpisodeEnded(batch_id=batch_id, outcome=outcome, at_s=AT_S + 10)


def provider_metrics() -> ProviderMetrics:
    return ProviderMetrics(
        limit=2,
        queue_timeout_s=180.0,
        request_count=40,
        max_active=2,
        total_queue_wait_s=1.5,
        max_queue_wait_s=0.2,
        attempts=41,
        retries=1,
        usage_by_role={ModelRole.PLANNER: TokenUsage(total_tokens=38_000)},
    )


def batch_ended(*, batch_id: str = "exp-g000-train", interrupted: bool = False) -> BatchEnded:
    return BatchEnded(
        batch_id=batch_id,
        duration_s=12.0,
        interrupted=interrupted,
        provider=provider_metrics(),
        at_s=AT_S + 12,
    )


def story(
    episodes: Manifest, outcomes: Iterable[EpisodeOutcome], *, of: Arm | None = None
) -> Iterator[Event]:
    """A batch from start to end, as a journal keeps it."""
    start = started(episodes, of=of)
    yield start
    for outcome in outcomes:
        yield EpisodeStarted(
            batch_id=start.batch_id,
            episode_id=outcome.episode_id,
            at_s=AT_S,
        )
        yield ended(outcome)
    yield batch_ended()
