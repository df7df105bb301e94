"""An author that is a language model with a clean context."""

from __future__ import annotations

from openeta_exp.adapters.authoring.strategy_writing import (
    revision_request,
    stamped,
    written_revision,
)
from openeta_exp.domain.artifact import Artifact, ArtifactKind
from openeta_exp.domain.candidate import Candidate, Proposal
from openeta_exp.domain.grasp_strategy import GraspStrategy, render_strategy
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.errors import ArtifactError, ProviderReplyError
from openeta_exp.ports.author import Workbench
from openeta_exp.ports.provider import Provider
from openeta_exp.wire.authoring import AuthorAnswer, AuthoringError, parse_author


class ModelStrategyAuthor:
    """See `ports.author.Author`; writes revisions of the first grasp strategy of the tree."""

    def __init__(self, provider: Provider, *, name: str) -> None:
        self._provider = provider
        self.name = name

    async def propose(self, evidence: TrainingEvidence, *, bench: Workbench) -> Proposal:
        in_use = evidence.tree.grasp_strategies()
        if not in_use:
            return Proposal(candidate=None, reason="the tree holds no grasp strategy to revise")
        try:
            reply = await self._provider.complete(revision_request(evidence))
        except ProviderReplyError as error:
            return Proposal(
                candidate=None,
                reason=f"the author's answer cannot be used: {error}",
                usage=TokenUsage.charged_by(error),
            )
        try:
            answer = parse_author(reply.text)
            candidate = self._candidate(answer, in_use[0], evidence)
        except AuthoringError as error:
            return Proposal(candidate=None, reason=str(error), usage=reply.usage)
        except ArtifactError as error:
            return Proposal(candidate=None, reason="; ".join(error.problems), usage=reply.usage)
        return Proposal(
            candidate=candidate,
            reason="proposed" if candidate is not None else f"author_no_change: {answer.reason}",
            usage=reply.usage,
        )

    def _candidate(
        self, answer: AuthorAnswer, in_use: GraspStrategy, evidence: TrainingEvidence
    ) -> Candidate | None:
        """Raises: ArtifactError: The strategy breaks its schema or is no revision."""
        written = written_revision(answer, in_use)
        if written is None:
            return None
        revision = stamped(written, evidence, author=self.name, rationale=answer.reason)
        return Candidate(
            artifact=Artifact(
                kind=ArtifactKind.GRASP_STRATEGY,
                name=revision.strategy_id,
                text=render_strategy(revision),
            ),
            supersedes=in_use.strategy_id,
            parent_digest=evidence.tree.content_digest,
            origin=f"author:{self.name}",
            rationale=answer.reason,
            supporting_episode_ids=tuple(
                episode.episode_id for episode in evidence.episodes if not episode.success
            ),
        )
