"""Episodes that wait for a person."""

from __future__ import annotations

from openeta_exp.domain.episode import (
    Assistance,
    EpisodeOutcome,
    EpisodeResult,
    EpisodeUsage,
    Interaction,
)
from openeta_exp.domain.guidance import AnsweredQuestion, AnswerSource
from openeta_exp.domain.identity import ExecutionId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.domain.stop import StopReason
from openeta_exp.domain.supervision import ApprovementProfile
from tests.batches import AT_S, arm, manifest, started, won

QUESTION = "Which one object should go where?"


def waiting(of: EpisodeSpec, *, attempt: int = 0) -> EpisodeResult:
    """The outcome of an episode that asked."""
    return won(of, success=False, stop_reason=StopReason.NEED_HUMAN, attempt=attempt).model_copy(
        update={
            "interaction": Interaction(interaction_id=f"interaction-{attempt}", question=QUESTION),
            "usage": EpisodeUsage(
                turns=4,
                tool_calls=6,
                tokens=TokenUsage(total_tokens=1_000),
                model_requests=5,
                denied_calls=2,
            ),
            "assistance": Assistance(guidance_interventions=2),
        }
    )


def paused(*, attempt: int = 0, number: int = 0) -> PausedEpisode:
    batch = started(manifest(2))
    of = batch.manifest.episodes[number]
    return PausedEpisode(
        experiment_id=batch.experiment_id,
        generation=batch.generation,
        phase=batch.phase,
        batch_id=batch.batch_id,
        manifest_digest=batch.manifest.content_digest,
        arm=arm(),
        config=batch.config,
        profile=ApprovementProfile.REVIEWED_AUTONOMY,
        spec=of,
        outcome=waiting(of).model_copy(
            update={
                "execution_id": ExecutionId(f"x-{number}-{attempt}"),
                "interaction": Interaction(
                    interaction_id=f"interaction-{attempt}", question=QUESTION
                ),
            }
        ),
        asked=(QUESTION,),
        created_at_s=AT_S,
    )


def went_on(outcome: EpisodeOutcome, *, tokens: int, human: int = 1) -> EpisodeOutcome:
    """As an attempt that goes on with the session that asked, which has used so much by then."""
    usage = outcome.usage.model_copy(update={"tokens": TokenUsage(total_tokens=tokens)})
    return outcome.model_copy(
        update={
            "session_id": paused().outcome.session_id,
            "usage": usage,
            "assistance": Assistance(human_interventions=human),
        }
    )


def answered(of: PausedEpisode, text: str = "Pick the red cube") -> AnsweredQuestion:
    return AnsweredQuestion(
        interaction_id=of.interaction.interaction_id,
        question=of.interaction.question,
        answer=text,
        source=AnswerSource.HUMAN,
        at_s=AT_S + 60,
    )
