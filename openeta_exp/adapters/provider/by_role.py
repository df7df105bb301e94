"""Several endpoints behind one port: each model role asks its own, all share one limiter."""

from __future__ import annotations

from collections.abc import Mapping

from openeta_exp.domain.model import ModelReply, ModelRequest, ModelRole, ProviderMetrics
from openeta_exp.ports.provider import Provider


class ByRoleProvider:
    """See `ports.provider.Provider`.

    The providers must share one limiter; its counts are then the same in each of their metrics,
    and only what they count themselves is added up.
    """

    def __init__(self, default: Provider, special: Mapping[ModelRole, Provider]) -> None:
        self._default = default
        self._special = dict(special)

    async def complete(self, request: ModelRequest) -> ModelReply:
        return await self._special.get(request.role, self._default).complete(request)

    async def ping(self) -> str:
        return await self._default.ping()

    def metrics(self) -> ProviderMetrics:
        shared, *others = (provider.metrics() for provider in self._all())
        usage = dict(shared.usage_by_role)
        for other in others:
            for role, tokens in other.usage_by_role.items():
                usage[role] = usage[role] + tokens if role in usage else tokens
        return shared.model_copy(
            update={
                "usage_by_role": usage,
                "attempts": shared.attempts + sum(other.attempts for other in others),
                "retries": shared.retries + sum(other.retries for other in others),
                "fallback_count": shared.fallback_count
                + sum(other.fallback_count for other in others),
            }
        )

    async def aclose(self) -> None:
        for provider in self._all():
            await provider.aclose()

    def _all(self) -> list[Provider]:
        distinct = {id(each): each for each in (self._default, *self._special.values())}
        return list(distinct.values())
