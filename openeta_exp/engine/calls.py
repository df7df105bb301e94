"""The model calls of a batch, for whatever runs one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.ports.provider import CallScope


@dataclass(frozen=True, slots=True)
class CountedCalls:
    """Counts what is called inside, where there is a provider to be called."""

    scope: CallScope | None

    def inside(self) -> AbstractContextManager[None]:
        return nullcontext() if self.scope is None else self.scope.inside()

    def metrics(self) -> ProviderMetrics | None:
        return None if self.scope is None else self.scope.metrics()


CountCalls = Callable[[], CountedCalls]
"""Begins to count."""


def counting(scope: Callable[[], CallScope]) -> CountCalls:
    """Of a provider, by its `scope`."""
    return lambda: CountedCalls(scope())


def no_calls() -> CountedCalls:
    """Where no model is asked."""
    return CountedCalls(None)
