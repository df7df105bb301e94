"""A reviewer that is a language model with a clean context and fails closed."""

from __future__ import annotations

from importlib.resources import files

from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.candidate import Candidate, Review, ReviewDecision
from openeta_exp.domain.model import ModelMessage, ModelRequest, ModelRole, TokenUsage
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.errors import ProviderError, ProviderQueueTimeout
from openeta_exp.ports.provider import Provider
from openeta_exp.wire.authoring import AuthoringError, parse_review, render_candidate

PROMPT = (
    files("openeta_exp.adapters.authoring")
    .joinpath("reviewer_prompt.md")
    .read_text(encoding="utf-8")
)
MAX_OUTPUT_TOKENS = 512
_ROLES = {
    ArtifactKind.GRASP_STRATEGY: ModelRole.STRATEGY_REVIEWER,
    ArtifactKind.SKILL: ModelRole.SKILL_REVIEWER,
}


class ModelReviewer:
    """See `ports.author.Reviewer`."""

    def __init__(self, provider: Provider, *, name: str) -> None:
        self._provider = provider
        self._name = name

    async def review(self, candidate: Candidate, *, evidence: TrainingEvidence) -> Review:
        try:
            reply = await self._provider.complete(
                ModelRequest(
                    role=_ROLES[candidate.artifact.kind],
                    messages=(
                        ModelMessage(role="system", text=PROMPT),
                        ModelMessage(role="user", text=render_candidate(candidate, evidence)),
                    ),
                    max_output_tokens=MAX_OUTPUT_TOKENS,
                )
            )
        except ProviderQueueTimeout:
            raise
        except ProviderError as error:
            return self._failed(
                f"the reviewer could not be asked: {error}",
                TokenUsage.charged_by(error),
            )
        try:
            decision, reason = parse_review(reply.text)
        except AuthoringError as error:
            return self._failed(f"the reviewer's answer cannot be used: {error}", reply.usage)
        return Review(decision=decision, reason=reason, reviewer=self._name, usage=reply.usage)

    def _failed(self, reason: str, usage: TokenUsage) -> Review:
        return Review(
            decision=ReviewDecision.REJECT,
            reason=reason,
            reviewer=self._name,
            failed=True,
            usage=usage,
        )
