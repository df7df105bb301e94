"""Scopes of a limiter: whose calls are counted where."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from openeta_exp.adapters.provider.by_role import ByRoleProvider
from openeta_exp.adapters.provider.limiter import ProviderLimiter
from openeta_exp.domain.model import ModelRole
from openeta_exp.embedded.models.server import create_app
from openeta_exp.errors import ProviderQueueTimeout
from openeta_exp.ports.provider import CallScope
from tests.adapters.provider.asking import asking, endpoint, providing, scripted
from tests.manual_clock import ManualClock, SkippingClock
from tests.serving import serving

pytestmark = pytest.mark.anyio


class Queue:
    """Calls of ten seconds on one slot, and a clock that moves when told."""

    def __init__(self, *, queue_timeout_s: float = 180.0) -> None:
        self.clock = ManualClock()
        self.limiter = ProviderLimiter(1, queue_timeout_s=queue_timeout_s, clock=self.clock)

    async def call(self, *scopes: CallScope, pauses_s: float = 0.0) -> None:
        if scopes:
            with scopes[0].inside():
                return await self.call(*scopes[1:], pauses_s=pauses_s)
        try:
            async with self.limiter.slot():
                if pauses_s:
                    self.limiter.pause(pauses_s)
                await self.clock.sleep(10)
        except ProviderQueueTimeout:
            pass


async def test_a_scope_counts_its_own_calls_among_those_of_others() -> None:
    queue = Queue()
    one, two = queue.limiter.calls.scope(), queue.limiter.calls.scope()
    async with anyio.create_task_group() as group:
        for scope in (one, two, one):
            group.start_soon(queue.call, scope)
            await queue.clock.advance(0)
        # A slot is given on by whoever frees it, and still counts where it was asked for.
        await queue.clock.advance(10)
        assert [each.metrics().active for each in (one, two)] == [0, 1]
        await queue.clock.advance(20)

    assert [each.metrics().request_count for each in (one, two)] == [2, 1]
    assert [each.metrics().max_queue_wait_s for each in (one, two)] == [20.0, 10.0]
    assert [each.metrics().max_active for each in (one, two)] == [1, 1]
    assert [each.metrics().active for each in (one, two)] == [0, 0]
    whole = queue.limiter.metrics()
    assert (whole.request_count, whole.total_queue_wait_s, whole.active) == (3, 30.0, 0)


async def test_what_was_called_before_a_scope_or_after_it_is_not_in_it() -> None:
    queue, seen = Queue(), list[int]()
    for inside in (False, True, False):
        scope = queue.limiter.calls.scope()
        async with anyio.create_task_group() as group:
            group.start_soon(queue.call, *[scope] * inside)
            await queue.clock.advance(10)
        seen.append(scope.metrics().request_count)

    assert seen == [0, 1, 0]


async def test_tasks_that_are_started_inside_are_inside_and_scopes_may_be_nested() -> None:
    queue = Queue()
    outer, inner = queue.limiter.calls.scope(), queue.limiter.calls.scope()
    with outer.inside():
        async with anyio.create_task_group() as group:
            group.start_soon(queue.call, inner)
            group.start_soon(queue.call)
            await queue.clock.advance(0)
            await queue.clock.advance(20)

    assert [each.metrics().request_count for each in (outer, inner)] == [2, 1]


async def test_time_outs_and_pauses_belong_to_the_call_that_met_them() -> None:
    queue = Queue(queue_timeout_s=5)
    one, two = queue.limiter.calls.scope(), queue.limiter.calls.scope()
    async with anyio.create_task_group() as group:
        group.start_soon(queue.call, one)
        await queue.clock.advance(0)
        group.start_soon(queue.call, two)
        await queue.clock.advance(5)
        await queue.clock.advance(5)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: queue.call(one, pauses_s=1.0))
        await queue.clock.advance(10)

    assert [each.metrics().queue_timeout_count for each in (one, two)] == [0, 1]
    assert [each.metrics().paused_count for each in (one, two)] == [1, 0]


async def test_another_limiter_inside_is_not_counted() -> None:
    queue, other = Queue(), Queue()
    scope = queue.limiter.calls.scope()
    async with anyio.create_task_group() as group:
        group.start_soon(other.call, scope)
        await other.clock.advance(10)

    assert scope.metrics().request_count == 0


async def test_requests_retries_fallbacks_and_tokens_are_those_made_inside() -> None:
    async with scripted("unavailable", fallback="latency=0") as provider:
        scope = provider.scope()
        await provider.complete(asking())
        with scope.inside():
            reply = await provider.complete(asking(role=ModelRole.GUIDANCE))

    seen = scope.metrics()
    assert (seen.request_count, seen.attempts, seen.retries) == (1, 1, 0)
    assert seen.fallback_count == 1
    assert seen.usage_by_role == {ModelRole.GUIDANCE: reply.usage}
    assert provider.metrics().fallback_count == 2
    assert provider.metrics().retries >= 1


async def test_providers_of_several_roles_are_counted_together() -> None:
    clock = SkippingClock()
    limiter = ProviderLimiter(2, queue_timeout_s=60, clock=clock)
    async with (
        serving(create_app()) as url,
        providing(endpoint(url), limiter=limiter, clock=clock) as planner,
        providing(endpoint(url), limiter=limiter, clock=clock) as reviewer,
    ):
        both = ByRoleProvider(planner, {ModelRole.ACTION_REVIEWER: reviewer})
        scope = both.scope()
        with scope.inside():
            for role in (ModelRole.PLANNER, ModelRole.ACTION_REVIEWER):
                await both.complete(asking(role=role))

    for metrics in (scope.metrics(), both.metrics()):
        assert (metrics.request_count, metrics.attempts) == (2, 2)
        assert set(metrics.usage_by_role) == {ModelRole.PLANNER, ModelRole.ACTION_REVIEWER}
