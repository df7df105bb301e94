"""Model endpoints that say what they are told to say, and remember what they were asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openeta_exp.adapters.provider.call_counts import CallCounter
from openeta_exp.domain.model import (
    Endpoint,
    ModelMessage,
    ModelReply,
    ModelRequest,
    ProviderMetrics,
    TokenUsage,
)
from openeta_exp.ports.provider import CallScope

Says = str | Exception | Callable[[Sequence[ModelMessage]], str]
TOKENS = 7


class SpeakingProvider:
    """Gives one answer to everything, or a model's own."""

    def __init__(self, says: Says) -> None:
        self._says = says
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        if isinstance(self._says, Exception):
            raise self._says
        text = self._says if isinstance(self._says, str) else self._says(request.messages)
        return ModelReply(
            text=text,
            usage=TokenUsage(total_tokens=TOKENS),
            model="speaking",
            endpoint=Endpoint.PRIMARY,
            attempts=1,
            queue_wait_s=0.0,
            latency_s=0.0,
        )

    async def ping(self) -> str:
        return "speaking"

    def metrics(self) -> ProviderMetrics:
        return ProviderMetrics(limit=1, queue_timeout_s=1.0)

    def scope(self) -> CallScope:
        return CallCounter(limit=1, queue_timeout_s=1.0).scope()

    async def aclose(self) -> None: ...
