"""How many model calls there were: of the whole process, and of whoever counts its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from openeta_exp.domain.model import ModelRole, ProviderMetrics, TokenUsage


@dataclass(slots=True, eq=False)
class CallCounts:
    """What has been counted so far; see `ProviderMetrics` for what each number means."""

    requests: int = 0
    queue_timeouts: int = 0
    active: int = 0
    max_active: int = 0
    total_queue_wait_s: float = 0.0
    max_queue_wait_s: float = 0.0
    pauses: int = 0
    attempts: int = 0
    retries: int = 0
    fallbacks: int = 0
    usage_by_role: dict[ModelRole, TokenUsage] = field(default_factory=dict)

    def begin(self) -> None:
        self.active += 1
        self.max_active = max(self.max_active, self.active)

    def waited(self, seconds: float) -> None:
        self.total_queue_wait_s += seconds
        self.max_queue_wait_s = max(self.max_queue_wait_s, seconds)

    def charge(self, role: ModelRole, usage: TokenUsage) -> None:
        self.usage_by_role[role] = self.usage_by_role.get(role, TokenUsage()) + usage


class CallCounter:
    """Counts each call in the total, and in every scope it is made in."""

    def __init__(self, *, limit: int, queue_timeout_s: float) -> None:
        self._limit = limit
        self._queue_timeout_s = queue_timeout_s
        self._total = CallCounts()

    def here(self) -> tuple[CallCounts, ...]:
        """Where a call that is made here counts.

        To be asked once, where the call is made: its slot may come, and go, in another task.
        """
        inside = (scope.counts for scope in _INSIDE.get() if scope.counter is self)
        return (self._total, *inside)

    def scope(self) -> CountingScope:
        return CountingScope(self)

    def metrics(self, counts: CallCounts | None = None) -> ProviderMetrics:
        """Of the whole process, unless other counts are given."""
        of = self._total if counts is None else counts
        return ProviderMetrics(
            limit=self._limit,
            queue_timeout_s=self._queue_timeout_s,
            request_count=of.requests,
            queue_timeout_count=of.queue_timeouts,
            active=of.active,
            max_active=of.max_active,
            total_queue_wait_s=of.total_queue_wait_s,
            max_queue_wait_s=of.max_queue_wait_s,
            paused_count=of.pauses,
            attempts=of.attempts,
            retries=of.retries,
            fallback_count=of.fallbacks,
            usage_by_role=dict(of.usage_by_role),
        )


@dataclass(frozen=True, slots=True, eq=False)
class CountingScope:
    """See `ports.provider.CallScope`. Tasks inherit the scopes of whoever starts them."""

    counter: CallCounter
    counts: CallCounts = field(default_factory=CallCounts)

    @contextmanager
    def inside(self) -> Iterator[None]:
        token = _INSIDE.set((*_INSIDE.get(), self))
        try:
            yield
        finally:
            _INSIDE.reset(token)

    def metrics(self) -> ProviderMetrics:
        return self.counter.metrics(self.counts)


_INSIDE: ContextVar[tuple[CountingScope, ...]] = ContextVar("inside", default=())
"""The scopes of this task."""
