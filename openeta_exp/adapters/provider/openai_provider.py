"""The provider behind every model role: retries, fallback, one limiter, one account of tokens."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import assert_never

from openeta_exp.adapters.provider.call_counts import CallCounts
from openeta_exp.adapters.provider.endpoint import ChatEndpoint, EndpointConfig
from openeta_exp.adapters.provider.failures import Failure, FailureClass, cut, empty
from openeta_exp.adapters.provider.limiter import ProviderLimiter
from openeta_exp.adapters.provider.meter import Hold, SpendingMeter
from openeta_exp.adapters.provider.token_accounting import TokenEstimator, reported_usage
from openeta_exp.domain.counting import counted
from openeta_exp.domain.model import (
    Endpoint,
    ModelMessage,
    ModelReply,
    ModelRequest,
    ModelRole,
    ProviderMetrics,
    TokenUsage,
)
from openeta_exp.errors import ProviderError, ProviderQuotaError, ProviderReplyError
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.provider import CallScope
from openeta_exp.wire.openai_chat import ChatReply

MAX_BACKOFF_S = 30.0
MAX_RETRY_AFTER_S = 300.0
"""An endpoint that asks for more is as good as down: the call fails instead of holding its slot."""
MAX_PLANNER_IMAGES = 2
MAX_IMAGES = 4


@dataclass(slots=True)
class _Call:
    """One call on its way through its attempts.

    Attributes:
        at: The endpoint to ask next.
        counts: Where it counts.
        latency_s: Of the last request alone, without waits between attempts.
        hopeless: Endpoints this call will not ask again.
        failed: Endpoints that failed in this call.
        hold: What the request on its way can cost.
    """

    request: ModelRequest
    at: Endpoint
    counts: tuple[CallCounts, ...]
    queue_wait_s: float
    latency_s: float = 0.0
    usage: TokenUsage = field(default_factory=TokenUsage)
    attempts: int = 0
    hopeless: set[Endpoint] = field(default_factory=set)
    failed: set[Endpoint] = field(default_factory=set)
    hold: Hold | None = None


class OpenAiProvider:
    """A primary endpoint and, if there is one, a fallback.

    Whichever endpoint answered last is asked first (sticky). A call holds one slot of the
    limiter over all its attempts. A 429 pauses every caller until Retry-After, unless this call
    can go to the other endpoint instead. Calls are counted by the limiter, together with those of
    every provider that shares it; `fallback_count` counts the answers that came from the fallback.
    """

    def __init__(
        self,
        primary: EndpointConfig,
        *,
        limiter: ProviderLimiter,
        clock: Clock,
        fallback: EndpointConfig | None = None,
        max_attempts: int = 3,
        backoff_s: float = 0.5,
        rng: random.Random | None = None,
        meter: SpendingMeter | None = None,
    ) -> None:
        """
        Args:
            max_attempts: Requests for one answer, both endpoints together.
            backoff_s: Upper bound of the first random wait; doubles with every attempt.
            rng: Source of the jitter.
            meter: Shared by all providers, like the limiter; None counts and refuses nothing.
        """
        configs = {Endpoint.PRIMARY: primary}
        if fallback is not None:
            configs[Endpoint.FALLBACK] = fallback
        self._endpoints = {
            name: ChatEndpoint(config, clock=clock) for name, config in configs.items()
        }
        self._estimators = {name: TokenEstimator(config.model) for name, config in configs.items()}
        self._limiter = limiter
        self._clock = clock
        self._max_attempts = max_attempts
        self._backoff_s = backoff_s
        self._rng = rng or random.Random()
        self._meter = meter
        self._preferred = Endpoint.PRIMARY

    async def complete(self, request: ModelRequest) -> ModelReply:
        async with self._limiter.slot() as queue_wait_s:
            return await self._answer(self._call(request, queue_wait_s))

    async def ping(self) -> str:
        request = ModelRequest(
            role=ModelRole.PLANNER,
            messages=(ModelMessage(role="user", text="Answer with the JSON object {}"),),
            max_output_tokens=1,
        )
        async with self._limiter.slot():
            call = self._call(request, 0.0)
            while True:
                reply = await self._send(call)
                if isinstance(reply, ChatReply):
                    await self._charge(call, reply)
                    return reply.model or self._endpoints[call.at].model
                await self._after(call, reply)

    def metrics(self) -> ProviderMetrics:
        return self._limiter.metrics()

    def scope(self) -> CallScope:
        return self._limiter.calls.scope()

    async def aclose(self) -> None:
        for endpoint in self._endpoints.values():
            await endpoint.aclose()

    def _call(self, request: ModelRequest, queue_wait_s: float) -> _Call:
        return _Call(request, self._preferred, self._limiter.calls.here(), queue_wait_s)

    async def _answer(self, call: _Call) -> ModelReply:
        while True:
            outcome = await self._send(call)
            if isinstance(outcome, ChatReply):
                await self._charge(call, outcome)
                failure = _flaw(outcome, call.request)
                if failure is None:
                    return self._accept(call, outcome)
            else:
                failure = outcome
            await self._after(call, failure)

    async def _send(self, call: _Call) -> ChatReply | Failure:
        await self._limiter.unpaused()
        planner = call.request.role is ModelRole.PLANNER
        max_images = MAX_PLANNER_IMAGES if planner else MAX_IMAGES
        endpoint = self._endpoints[call.at]
        await endpoint.open()
        if self._meter is not None:
            # From here on the attempt counts, also if it is cancelled on its way.
            call.hold = self._meter.hold(call.request, max_images=max_images)
        for counts in call.counts:
            counts.attempts += 1
            counts.retries += call.attempts > 0
        call.attempts += 1
        began_s = self._clock.monotonic_s()
        outcome = await endpoint.send(call.request, max_images=max_images)
        call.latency_s = self._clock.monotonic_s() - began_s
        if isinstance(outcome, Failure):
            if outcome.charged is not None:
                self._count(call, outcome.charged)
            elif not outcome.may_be_charged:
                self._settle(call, TokenUsage())
        return outcome

    def _settle(self, call: _Call, usage: TokenUsage) -> None:
        if self._meter is not None and call.hold is not None:
            self._meter.settle(call.hold, usage)

    async def _charge(self, call: _Call, reply: ChatReply) -> None:
        usage = reported_usage(reply.usage)
        if usage is None:
            usage = await self._estimators[call.at].usage(call.request, reply.text)
        self._count(call, usage)

    def _count(self, call: _Call, usage: TokenUsage) -> None:
        self._settle(call, usage)
        call.usage += usage
        for counts in call.counts:
            counts.charge(call.request.role, usage)

    def _accept(self, call: _Call, reply: ChatReply) -> ModelReply:
        self._preferred = call.at
        for counts in call.counts:
            counts.fallbacks += call.at is Endpoint.FALLBACK
        return ModelReply(
            text=reply.text,
            usage=call.usage,
            model=reply.model or self._endpoints[call.at].model,
            endpoint=call.at,
            attempts=call.attempts,
            queue_wait_s=call.queue_wait_s,
            latency_s=call.latency_s,
        )

    async def _after(self, call: _Call, failure: Failure) -> None:
        """Get ready for the next attempt: choose the endpoint and wait.

        Raises:
            ProviderError: There is nothing left to try.
        """
        here = call.at
        call.failed.add(here)
        if not failure.transient:
            call.hopeless.add(here)
        other = self._other(call) if failure.failover else None
        asked_s = failure.retry_after_s or 0.0
        if call.attempts >= self._max_attempts or (other is None and not failure.transient):
            raise _error(failure, call)
        if other is not None:
            call.at = other
            if other not in call.failed:
                return
        elif asked_s > MAX_RETRY_AFTER_S:
            raise _error(failure, call)
        bound_s = min(MAX_BACKOFF_S, self._backoff_s * 2 ** (call.attempts - 1))
        wait_s = max(min(asked_s, MAX_RETRY_AFTER_S), self._rng.uniform(0.0, bound_s))
        if failure.rate_limited:
            self._limiter.pause(wait_s)
        else:
            await self._clock.sleep(wait_s)

    def _other(self, call: _Call) -> Endpoint | None:
        others = (name for name in self._endpoints if name is not call.at)
        return next((name for name in others if name not in call.hopeless), None)


def _flaw(reply: ChatReply, request: ModelRequest) -> Failure | None:
    """Why a model's answer cannot be used; None if it can."""
    if reply.finish_reason == "length":
        return cut(f"the answer was cut at {counted(request.max_output_tokens, 'token')}")
    return None if reply.text.strip() else empty("the model answered with empty content")


def _error(failure: Failure, call: _Call) -> ProviderError:
    message = f"{failure.reason} (attempt {call.attempts})"
    charged = call.usage.charged()
    match failure.kind:
        case FailureClass.UNAVAILABLE:
            return ProviderError(message, charged=charged)
        case FailureClass.REFUSED:
            return ProviderError(message, code="provider_request_refused", charged=charged)
        case FailureClass.QUOTA:
            return ProviderQuotaError(message, charged=charged)
        case FailureClass.UNUSABLE | FailureClass.CUT:
            return ProviderReplyError(message, charged=charged)
        case _:
            assert_never(failure.kind)
