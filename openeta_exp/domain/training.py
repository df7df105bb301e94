"""What an author may learn from: a training batch and what became of earlier candidates."""

from __future__ import annotations

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult, GraspAttempt, says_something
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.record import Record
from openeta_exp.domain.stop import FailureClass, StopReason


class TrainingEpisode(Record):
    """One training episode, as an author sees it."""

    episode_id: str
    task: str
    success: bool
    stop_reason: StopReason
    failure_class: FailureClass
    turns: int
    grasps: tuple[GraspAttempt, ...]


class EarlierCandidate(Record):
    """What was tried before and what came of it."""

    generation: int
    kind: ArtifactKind
    name: str
    content_digest: Digest
    text: str
    stop: str
    reason: str


class TrainingEvidence(Record):
    """Everything an author is shown. Held-out outcomes are not part of it."""

    experiment_id: str
    generation: int
    kind: ArtifactKind
    tree: ArtifactTree
    episodes: tuple[TrainingEpisode, ...]
    earlier: tuple[EarlierCandidate, ...]


def training_episodes(
    manifest: Manifest, outcomes: tuple[EpisodeOutcome, ...]
) -> tuple[TrainingEpisode, ...]:
    """An episode that broke, or was solved at reset, says nothing about the agent."""
    tasks = {spec.episode_id: spec.task for spec in manifest.episodes}
    return tuple(
        training_episode(outcome, task=tasks[outcome.episode_id])
        for outcome in outcomes
        if says_something(outcome)
    )


def training_episode(outcome: EpisodeResult, *, task: str) -> TrainingEpisode:
    """What an author is shown of an episode."""
    return TrainingEpisode(
        episode_id=outcome.episode_id,
        task=task,
        success=outcome.success,
        stop_reason=outcome.stop_reason,
        failure_class=outcome.failure_class,
        turns=outcome.usage.turns,
        grasps=outcome.grasps,
    )
