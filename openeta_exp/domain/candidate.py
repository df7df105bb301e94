"""A changed artifact with its support, and what an independent reviewer said of it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from openeta_exp.domain.artifact import Artifact, ArtifactTree
from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.record import Record


class Candidate(Record):
    """One change that asks to become part of the baseline."""

    artifact: Artifact
    supersedes: str | None = None
    """Name of the baseline's artifact that this one takes the place of; None if it is new."""
    parent_digest: Digest
    """The tree the change is meant for."""
    origin: str
    """Who wrote it: `author:NAME`, `session`, `file`."""
    rationale: str = ""
    supporting_episode_ids: tuple[str, ...] = ()
    """Episodes whose checker-verified success, or whose failure, speaks for the change."""

    @property
    def content_digest(self) -> Digest:
        return self.artifact.content_digest

    def applied_to(self, tree: ArtifactTree) -> ArtifactTree:
        """The tree with this change and nothing else."""
        kept = (
            tree if self.supersedes is None else tree.without(self.artifact.kind, self.supersedes)
        )
        return kept.with_changes([self.artifact])


class Effort(Record):
    """What writing a proposal took, besides the training batch that every author is shown."""

    episodes: int = Field(default=0, ge=0)
    """Training episodes that were run for it, broken ones included."""
    tokens: TokenUsage = TokenUsage()
    """Of these episodes and of the author's own model."""
    usd: float | None = None
    """What the tokens cost; None if a price is not known."""

    def __str__(self) -> str:
        episodes = f"{counted(self.episodes, 'training episode')}, " if self.episodes else ""
        price = "" if self.usd is None else f", ${self.usd:,.2f}"
        return f"{episodes}{counted(self.tokens.total_tokens, 'token')}{price}"


class AuthorReply(Record):
    """One answer of an author's model, kept so that a restarted author is not answered twice."""

    text: str
    problem: str = ""
    """Why the answer cannot be used; empty if it can be read."""
    usage: TokenUsage = TokenUsage()


class Proposal(Record):
    """What an author answered: a candidate, or the reason why there is none."""

    candidate: Candidate | None
    reason: str
    """`proposed`, `author_no_change`, or what made the answer unusable."""
    left_out: tuple[str, ...] = ()
    """What could have been proposed and cannot be used, one sentence each."""
    usage: TokenUsage = TokenUsage()
    """Of answers that no fact of their own speaks of."""
    effort: Effort = Effort()

    @property
    def remark(self) -> str:
        """What goes behind any account of it; empty if nothing was left out."""
        return "".join(f"; left out {each}" for each in self.left_out)


class ReviewDecision(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    ABSTAIN = "abstain"


class Review(Record):
    """An independent reviewer's answer. Only an approval lets a candidate go on."""

    decision: ReviewDecision
    reason: str
    reviewer: str
    failed: bool = False
    """The reviewer broke; that is a rejection."""
    usage: TokenUsage = TokenUsage()

    @property
    def approves(self) -> bool:
        return self.decision is ReviewDecision.APPROVE and not self.failed


class Promotion(Record):
    """The record that makes a candidate part of the next baseline."""

    generation: int = Field(ge=0)
    kind: str
    name: str
    from_digest: Digest
    """Tree before."""
    to_digest: Digest
    """Tree after."""
    candidate_digest: Digest
    comparison_id: str
    reasons: tuple[str, ...]
