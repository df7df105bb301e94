"""Who writes a session's skill change, and who has to agree to it."""

from __future__ import annotations

from typing import Protocol

from openeta_exp.domain.candidate import Review
from openeta_exp.domain.skill_change import SkillChange, SkillDraft, SkillRequest


class SkillAuthor(Protocol):
    """Writes one skill in a clean context. Shared by all episodes."""

    async def write(self, request: SkillRequest) -> SkillDraft:
        """An author that fails has written nothing; that never raises.

        Raises:
            ProviderQueueTimeout: The request could not even be queued.
        """
        ...


class SkillJudge(Protocol):
    """Agrees to a skill change or does not, without having written it."""

    @property
    def is_a_person(self) -> bool:
        """Whether waiting for the answer is waiting for a person."""
        ...

    async def judge(self, change: SkillChange) -> Review:
        """A judge that fails has rejected; that never raises.

        Raises:
            ProviderQueueTimeout: The request could not even be queued.
            StoreError: The change could not be put before a person.
        """
        ...
