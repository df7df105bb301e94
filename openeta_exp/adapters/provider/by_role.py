"""Several endpoints behind one port: each model role asks its own, all share one limiter."""

from __future__ import annotations

from collections.abc import Mapping

from openeta_exp.domain.model import ModelReply, ModelRequest, ModelRole, ProviderMetrics
from openeta_exp.ports.provider import CallScope, Provider


class ByRoleProvider:
    """See `ports.provider.Provider`.

    The providers must share one limiter: it counts the calls of all of them.
    """

    def __init__(self, default: Provider, special: Mapping[ModelRole, Provider]) -> None:
        self._default = default
        self._special = dict(special)

    async def complete(self, request: ModelRequest) -> ModelReply:
        return await self._special.get(request.role, self._default).complete(request)

    async def ping(self) -> str:
        return await self._default.ping()

    def metrics(self) -> ProviderMetrics:
        return self._default.metrics()

    def scope(self) -> CallScope:
        return self._default.scope()

    async def aclose(self) -> None:
        for provider in self._all():
            await provider.aclose()

    def _all(self) -> list[Provider]:
        distinct = {id(each): each for each in (self._default, *self._special.values())}
        return list(distinct.values())
