"""What every provider promises, whoever serves the model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from openeta_exp.domain.model import Endpoint, ModelRole, TokenUsage
from openeta_exp.errors import ProviderReplyError
from openeta_exp.ports.provider import Provider
from tests.adapters.provider.asking import asking, scripted
from tests.adapters.provider.local_model import local_model

pytestmark = pytest.mark.anyio


@pytest.fixture(
    params=["scripted", "fallback", pytest.param("local", marks=pytest.mark.localmodel)]
)
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[Provider]:
    """The scripted models; the same as fallback of a dead primary; a real local model."""
    match request.param:
        case "scripted":
            source = scripted()
        case "fallback":
            source = scripted("unavailable", fallback="latency=0")
        case _:
            source = local_model()
    async with source as provider:
        yield provider


async def test_an_answer_comes_with_its_cost_and_its_author(provider: Provider) -> None:
    reply = await provider.complete(asking(max_output_tokens=400))

    assert reply.text
    assert reply.model
    assert reply.attempts >= 1
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert sum(reply.usage.sources.values()) == 1
    assert reply.latency_s >= 0
    assert reply.queue_wait_s == 0


async def test_the_same_question_gets_the_same_answer(provider: Provider) -> None:
    first, second = [await provider.complete(asking(max_output_tokens=400)) for _ in range(2)]

    assert first.text == second.text
    assert first.usage == second.usage


async def test_a_ping_brings_the_name_of_the_model(provider: Provider) -> None:
    assert await provider.ping()


async def test_an_answer_cut_by_length_is_never_handed_out(provider: Provider) -> None:
    with pytest.raises(ProviderReplyError, match="cut at 3 tokens"):
        await provider.complete(asking(max_output_tokens=3))

    assert provider.metrics().usage_by_role[ModelRole.PLANNER].total_tokens > 0


async def test_many_roles_at_once_share_the_slots_and_are_counted_apart(
    provider: Provider,
) -> None:
    usage: dict[ModelRole, TokenUsage] = {}
    roles = [ModelRole.PLANNER, ModelRole.ACTION_REVIEWER, ModelRole.GUIDANCE]

    async def ask(role: ModelRole) -> None:
        for _ in range(2):
            reply = await provider.complete(asking(role=role, max_output_tokens=400))
            usage[role] = usage.get(role, TokenUsage()) + reply.usage

    async with anyio.create_task_group() as group:
        for role in roles:
            group.start_soon(ask, role)

    metrics = provider.metrics()
    assert metrics.request_count == 6
    assert metrics.active == 0
    assert 1 <= metrics.max_active <= metrics.limit
    assert metrics.usage_by_role == usage


async def test_a_cancelled_call_holds_no_slot(provider: Provider) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(provider.complete, asking())
        await anyio.sleep(0)
        group.cancel_scope.cancel()

    assert provider.metrics().active == 0
    assert (await provider.complete(asking(max_output_tokens=400))).queue_wait_s == 0


async def test_metrics_count_every_answer_of_the_fallback(provider: Provider) -> None:
    replies = [await provider.complete(asking(max_output_tokens=400)) for _ in range(2)]

    from_fallback = sum(reply.endpoint is Endpoint.FALLBACK for reply in replies)
    assert provider.metrics().fallback_count == from_fallback
