"""Who writes a change, and who judges it. Both see a clean context, never each other's."""

from __future__ import annotations

from typing import Protocol

from openeta_exp.domain.candidate import Candidate, Proposal, Review
from openeta_exp.domain.training import TrainingEvidence


class Author(Protocol):
    """Writes at most one change from the evidence of a training batch."""

    @property
    def name(self) -> str: ...

    async def propose(self, evidence: TrainingEvidence) -> Proposal:
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
