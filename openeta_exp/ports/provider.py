"""The model endpoint."""

from __future__ import annotations

from typing import Protocol

from openeta_exp.domain.model import ModelReply, ModelRequest, ProviderMetrics


class Provider(Protocol):
    """One endpoint (and its fallback) behind one fair limiter shared by every model role.

    May be used by any number of tasks at once. Retries, fallback and rate-limit pauses happen
    inside; a slot is held over the retries of one call. Nothing is retried by the caller.
    """

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Continue a conversation by one answer.

        Raises:
            ProviderQueueTimeout: No slot came free in time; nothing was sent.
            ProviderQuotaError: The account is exhausted.
            ProviderReplyError: The answer was empty or cut by length.
            ProviderError: The endpoint could not answer within its retries.
        """
        ...

    async def ping(self) -> str:
        """Ask the endpoint for one token and return the model's own name.

        Raises:
            ProviderError: It did not answer.
        """
        ...

    def metrics(self) -> ProviderMetrics: ...

    async def aclose(self) -> None: ...
