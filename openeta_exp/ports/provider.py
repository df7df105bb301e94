"""The model endpoint."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from openeta_exp.domain.model import ModelReply, ModelRequest, ProviderMetrics


class CallScope(Protocol):
    """Counts the calls that are made inside it, whoever else makes calls meanwhile.

    It may be entered again, by any number of tasks at once, and within other scopes; a task that
    is started inside is inside.
    """

    def inside(self) -> AbstractContextManager[None]: ...

    def metrics(self) -> ProviderMetrics:
        """Of its calls so far, the most at once and the longest wait among them included."""
        ...


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

    def metrics(self) -> ProviderMetrics:
        """Of every call since the process began; of a part of them, see `scope`."""
        ...

    def scope(self) -> CallScope:
        """A new one, without any call yet."""
        ...

    async def aclose(self) -> None: ...
