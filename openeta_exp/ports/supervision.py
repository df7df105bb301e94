"""Who decides whether a world-mutating call may run."""

from __future__ import annotations

from typing import Protocol

from openeta_exp.domain.supervision import ActionContext, ApprovementProfile, Authorization


class ActionGate(Protocol):
    """Decides on world-mutating calls under one approvement profile. Shared by all episodes."""

    @property
    def profile(self) -> ApprovementProfile: ...

    async def authorize(self, context: ActionContext) -> Authorization:
        """May this call run? Never raises for a reviewer that fails: that is a denial.

        Raises:
            ProviderQueueTimeout: The reviewer's request could not even be queued.
            StoreError: The request could not be put before a person.
        """
        ...
