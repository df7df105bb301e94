"""Caps on spending, against the account of a real model server."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from openeta_exp.adapters.provider.by_role import ByRoleProvider
from openeta_exp.adapters.provider.limiter import ProviderLimiter
from openeta_exp.adapters.provider.meter import SpendingMeter
from openeta_exp.adapters.store.spending_ledger import MemoryLedger
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.event import GenerationStarted
from openeta_exp.domain.model import ModelRole
from openeta_exp.domain.money import Caps, Prices
from openeta_exp.embedded.models.server import create_app
from openeta_exp.errors import ProviderError, ProviderReplyError, SpendingCapError
from openeta_exp.ports.provider import Provider
from openeta_exp.ports.spending import SpendingLedger
from tests.adapters.provider.asking import MODEL, PNG, Recorder, asking, endpoint, providing
from tests.charging import Charging
from tests.manual_clock import SkippingClock
from tests.serving import serving

pytestmark = pytest.mark.anyio

FREE = Prices(input_usd=None, output_usd=None)
LONG = "where is the can? " * 100
ANSWER = 200


def meter(
    ledger: SpendingLedger | None = None, *, prices: Prices = FREE, **caps: float
) -> SpendingMeter:
    return SpendingMeter(ledger or MemoryLedger(), caps=Caps(**caps), prices=prices)  # type: ignore[arg-type]


def generation(number: int) -> GenerationStarted:
    return GenerationStarted(
        experiment_id="exp", generation=number, baseline=ArtifactTree(), at_s=0.0
    )


@asynccontextmanager
async def charged(
    by: SpendingMeter, faults: str = "", *, limit: int = 8, timeout_s: float = 5.0
) -> AsyncIterator[tuple[Provider, Charging]]:
    app = Charging(create_app())
    async with serving(app) as url:
        config = endpoint(url, model=f"{MODEL}+{faults}" if faults else MODEL, timeout_s=timeout_s)
        async with providing(config, limit=limit, meter=by) as provider:
            yield provider, app


async def ask_until_refused(provider: Provider) -> SpendingCapError:
    for _ in range(1000):
        try:
            await provider.complete(asking(LONG, images=[PNG], max_output_tokens=ANSWER))
        except SpendingCapError as refused:
            return refused
        except ProviderReplyError:
            continue
    raise AssertionError("nothing was ever refused")


async def test_the_call_that_could_exceed_the_cap_is_not_made() -> None:
    spending = meter(experiment_tokens=10_000)

    async with charged(spending) as (provider, server):
        refused = await ask_until_refused(provider)

    # One more would have fitted if its answer had been short; nobody could know.
    assert 10_000 - 2 * max(server.charges) - ANSWER < server.tokens <= 10_000
    assert spending.spent.total == server.tokens
    assert str(refused).startswith("money.experiment_tokens = 10,000: stopped before a call of")
    assert f"{server.tokens:,} tokens spent" in str(refused)
    assert str(refused).endswith("raise money.experiment_tokens and give the same command to go on")


async def test_calls_in_flight_count_for_the_most_they_can_cost() -> None:
    spending = meter(experiment_tokens=20_000)

    async with (
        charged(spending, "latency=0.02") as (provider, server),
        anyio.create_task_group() as group,
    ):
        for _ in range(8):
            group.start_soon(ask_until_refused, provider)

    assert server.tokens <= 20_000
    assert spending.spent.total == server.tokens
    assert spending.unanswered.total == 0


async def test_nothing_is_let_through_once_something_was_refused() -> None:
    spending = meter(experiment_tokens=3_000)

    async with charged(spending) as (provider, server):
        await ask_until_refused(provider)
        before = server.tokens
        with pytest.raises(SpendingCapError):
            await provider.complete(asking("hi", max_output_tokens=1))

    assert server.tokens == before


async def test_attempts_that_failed_and_were_charged_count() -> None:
    spending = meter()

    async with charged(spending, "empty@1-3") as (provider, server):
        with pytest.raises(ProviderReplyError):
            await provider.complete(asking(LONG))

    assert len(server.charges) == 3
    assert spending.spent.total == server.tokens


async def test_a_retry_is_refused_like_a_first_attempt() -> None:
    spending = meter(experiment_tokens=2_000)

    async with charged(spending, "empty") as (provider, server):
        await ask_until_refused(provider)

    assert len(server.charges) >= 2
    assert server.tokens <= 2_000


async def test_refusals_of_the_endpoint_cost_nothing() -> None:
    spending = meter()

    async with charged(spending, "server_error@1,rate_limit@2") as (provider, server):
        await provider.complete(asking(LONG))

    assert spending.spent.total == server.tokens
    assert spending.unanswered.total == 0


async def test_an_error_with_status_200_costs_nothing() -> None:
    spending = meter()
    said = '{"error": {"message": "slow down", "code": 429}, "usage": {"total_tokens": 9}}'

    async with (
        serving(Recorder((200, said)).app()) as url,
        providing(endpoint(url), meter=spending) as provider,
    ):
        with pytest.raises(ProviderError):
            await provider.complete(asking(LONG))

    assert (spending.spent.total, spending.unanswered.total) == (0, 0)


async def test_answers_without_a_choice_cost_what_they_say() -> None:
    spending = meter()

    async with charged(spending, "no_choices") as (provider, server):
        with pytest.raises(ProviderError):
            await provider.complete(asking(LONG))

    assert len(server.charges) == 3
    assert (spending.spent.total, spending.unanswered.total) == (server.tokens, 0)


async def test_an_endpoint_that_is_not_there_costs_nothing() -> None:
    spending = meter()

    async with providing(endpoint("http://127.0.0.1:9"), meter=spending) as provider:
        with pytest.raises(ProviderError):
            await provider.complete(asking(LONG))

    assert (spending.spent.total, spending.unanswered.total) == (0, 0)


@pytest.mark.parametrize("faults", ["stall", "drop", "garbage"])
async def test_an_answer_that_does_not_come_counts_for_the_most_it_can_have_cost(
    faults: str,
) -> None:
    spending = meter()
    app = create_app()

    async with serving(app) as url:
        config = endpoint(url, model=f"{MODEL}+{faults}", timeout_s=0.2)
        async with providing(config, max_attempts=1, meter=spending) as provider:
            with pytest.raises(ProviderError):
                await provider.complete(asking(LONG, max_output_tokens=ANSWER))

    assert spending.spent.total == 0
    assert spending.unanswered.written == ANSWER
    assert spending.unanswered.read > len(LONG) / 4


async def test_a_call_that_is_interrupted_counts_also_after_a_restart() -> None:
    ledger = MemoryLedger()
    arrived = anyio.Event()

    class Arriving(Recorder):
        async def answer(self, request):  # type: ignore[no-untyped-def]
            arrived.set()
            await anyio.sleep_forever()

    async with (
        serving(Arriving((200, "")).app()) as url,
        providing(endpoint(url), meter=meter(ledger)) as provider,
        anyio.create_task_group() as group,
    ):
        group.start_soon(provider.complete, asking(LONG, max_output_tokens=ANSWER))
        await arrived.wait()
        group.cancel_scope.cancel()

    again = meter(ledger)
    assert again.unanswered.written == ANSWER
    with pytest.raises(SpendingCapError, match=r"up to [0-9,]+ for calls in flight or without"):
        meter(ledger, experiment_tokens=again.unanswered.total).hold(asking("hi"), max_images=1)


async def test_all_roles_and_models_share_one_account() -> None:
    spending = meter(experiment_tokens=6_000)
    app = Charging(create_app())
    clock = SkippingClock()
    limiter = ProviderLimiter(8, queue_timeout_s=60, clock=clock)

    async with (
        serving(app) as url,
        providing(endpoint(url), limiter=limiter, clock=clock, meter=spending) as planner,
        providing(
            endpoint(url, model="scripted-guidance"), limiter=limiter, clock=clock, meter=spending
        ) as other,
    ):
        both = ByRoleProvider(planner, {ModelRole.GUIDANCE: other})
        roles: set[ModelRole] = set()
        for role in itertools.cycle((ModelRole.PLANNER, ModelRole.GUIDANCE)):
            try:
                await both.complete(asking(LONG, role=role, max_output_tokens=ANSWER))
            except SpendingCapError:
                break
            roles.add(role)

    assert len(roles) == 2
    assert app.tokens <= 6_000
    assert spending.spent.total == app.tokens


async def test_a_generation_has_a_cap_of_its_own() -> None:
    ledger = MemoryLedger()
    spending = meter(ledger, generation_tokens=5_000)

    async with charged(spending) as (provider, server):
        await ask_until_refused(provider)
        first = server.tokens

    spending = meter(ledger, generation_tokens=5_000)
    with pytest.raises(SpendingCapError, match="spent in generation 0"):
        spending.hold(asking(LONG, max_output_tokens=5_000 - first), max_images=1)
    spending = meter(ledger, generation_tokens=5_000)
    spending.take(generation(1))
    spending.hold(asking(LONG, max_output_tokens=5_000 - first), max_images=1)


async def test_a_cap_in_dollars_is_kept() -> None:
    prices = Prices(input_usd=1_000.0, output_usd=4_000.0)
    spending = meter(experiment_usd=5.0, prices=prices)

    async with charged(spending) as (provider, _):
        refused = await ask_until_refused(provider)

    spent = prices.of(spending.spent)
    assert spent is not None
    assert 3.0 < spent <= 5.0
    assert f"${spent:,.4f} spent" in str(refused)


async def test_a_model_that_counts_more_than_estimated_is_forecast_by_its_own_count() -> None:
    said = (
        '{"choices": [{"message": {"content": "{}"}}], '
        '"usage": {"prompt_tokens": 1500, "completion_tokens": 5, "total_tokens": 1505}}'
    )
    spending = meter()
    estimated = spending.hold(asking(LONG), max_images=1).charge.estimated

    async with (
        serving(Recorder((200, said)).app()) as url,
        providing(endpoint(url), meter=spending) as provider,
    ):
        await provider.complete(asking(LONG))

    assert 1500 / estimated > 2
    assert spending.hold(asking(LONG), max_images=1).charge.most.read == 1500
