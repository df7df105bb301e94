"""Who writes a change, and who judges it. Both see a clean context, never each other's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.candidate import AuthorReply, Candidate, Proposal, Review
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.model import ModelRequest
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.ports.provider import Provider


class Workbench(Protocol):
    """Where an author tries things out before it proposes, as far as its allowance goes.

    Everything done here is on record. An author that takes the same steps again after a restart
    finds what it was answered and what its episodes came to, and pays for neither again; its
    allowance counts both from the first of all runs of the command.
    """

    @property
    def episodes_left(self) -> int:
        """How many more episodes the allowance has, after the steps taken here so far."""
        ...

    async def run(
        self, tree: ArtifactTree, episode_ids: Sequence[str]
    ) -> tuple[EpisodeOutcome, ...] | None:
        """Outcomes of training episodes under another tree, in order.

        What broke was tried again, and is a failure if it broke every time. There are no other
        episodes here than those of the train manifest.

        Returns:
            None if the allowance did not cover all of them.

        Raises:
            StoreError: An outcome could not be kept.
        """
        ...

    async def ask(self, request: ModelRequest, *, provider: Provider) -> AuthorReply | None:
        """A model's answer; None if the allowance is spent.

        Raises:
            ProviderError: The model could not be reached.
            StoreError: The answer could not be kept.
        """
        ...


class Author(Protocol):
    """Writes at most one change from the evidence of a training batch."""

    @property
    def name(self) -> str: ...

    async def propose(self, evidence: TrainingEvidence, *, bench: Workbench) -> Proposal:
        """An unusable answer is a proposal without a candidate, not an exception.

        Raises:
            ProviderError: The author's model could not be reached.
        """
        ...


class Reviewer(Protocol):
    """Judges a change without having written it."""

    async def review(self, candidate: Candidate, *, evidence: TrainingEvidence) -> Review:
        """A reviewer that fails has rejected; that never raises.

        Raises:
            ProviderQueueTimeout: The request could not even be queued.
        """
        ...
