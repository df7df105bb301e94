"""The provider against endpoints that misbehave, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.provider.endpoint import EndpointConfig
from openeta_exp.adapters.provider.limiter import ProviderLimiter
from openeta_exp.adapters.provider.openai_provider import (
    MAX_BACKOFF_S,
    MAX_PLANNER_IMAGES,
    OpenAiProvider,
)
from openeta_exp.domain.model import Endpoint, ModelRole, TokenUsage, UsageSource
from openeta_exp.errors import (
    ProviderError,
    ProviderQueueTimeout,
    ProviderQuotaError,
    ProviderReplyError,
    SettingsError,
)
from openeta_exp.wire.openai_chat import MAX_IMAGE_BYTES
from tests.adapters.provider.asking import (
    KEY,
    PNG,
    Recorder,
    asking,
    endpoint,
    providing,
    scripted,
)
from tests.manual_clock import SkippingClock
from tests.serving import Talk, serving, talking

pytestmark = pytest.mark.anyio

GOOD = json.dumps(
    {
        "model": "m-2026",
        "choices": [{"message": {"content": '{"a": 1}'}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 9},
    }
)
EMPTY = GOOD.replace('{\\"a\\": 1}', "")


@asynccontextmanager
async def recorded(*answers: tuple[int, str]) -> AsyncIterator[tuple[OpenAiProvider, Recorder]]:
    recorder = Recorder(*answers)
    async with serving(recorder.app()) as url, providing(endpoint(url, model="m")) as provider:
        yield provider, recorder


async def test_the_request_is_json_mode_at_temperature_zero_with_images_after_the_text() -> None:
    async with recorded((200, GOOD)) as (provider, recorder):
        reply = await provider.complete(asking("look", images=[PNG]))

    body = json.loads(recorder.bodies[0])
    uri = body["messages"][1]["content"][2]["image_url"].pop("url")
    assert uri.startswith("data:image/png;base64,iVBORw0KGgo")
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Answer in JSON"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "text", "text": "[image: view 0]"},
                    {"type": "image_url", "image_url": {"detail": "high"}},
                ],
            },
        ],
        "temperature": 0,
        "max_tokens": 512,
        "response_format": {"type": "json_object"},
    }
    assert recorder.paths == {"/v1/chat/completions": 1}
    assert recorder.headers[0]["authorization"] == f"Bearer {KEY}"
    assert (reply.text, reply.model, reply.usage.total_tokens) == ('{"a": 1}', "m-2026", 9)


async def test_images_that_cannot_be_sent_are_named_with_the_reason() -> None:
    too_large = PNG + bytes(MAX_IMAGE_BYTES)
    async with recorded((200, GOOD)) as (provider, recorder):
        await provider.complete(asking(images=[PNG, too_large, b"GIF89a"]))

    content = json.loads(recorder.bodies[0])["messages"][1]["content"]
    assert [part["type"] for part in content] == ["text", "text"]
    assert content[1]["text"].splitlines() == [
        "[image 'view 0' not attached: too_many_images]",
        "[image 'view 1' not attached: image_too_large]",
        "[image 'view 2' not attached: unsupported_media_type]",
    ]


async def test_the_planner_gets_two_images_and_a_reviewer_four() -> None:
    async with recorded((200, GOOD)) as (provider, recorder):
        await provider.complete(asking(images=[PNG] * 5))
        await provider.complete(asking(images=[PNG] * 5, role=ModelRole.ACTION_REVIEWER))

    assert [body.count(b'"image_url":{') for body in recorder.bodies] == [MAX_PLANNER_IMAGES, 4]


async def test_a_bare_host_gets_a_version_and_a_versioned_url_stays() -> None:
    recorder = Recorder((200, GOOD))
    async with serving(recorder.app()) as url:
        for base in (url, f"{url}/", f"{url}/v1", f"{url}/v1/", f"{url}/api/v3"):
            async with providing(endpoint(base)) as provider:
                await provider.complete(asking())

    assert recorder.paths == {"/v1/chat/completions": 4, "/api/v3/chat/completions": 1}


async def test_connections_are_kept_and_used_again() -> None:
    opened = 0
    answer = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        f"content-length: {len(GOOD)}\r\n\r\n{GOOD}"
    ).encode()

    async def keep_alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        while not reader.at_eof():
            await _one_request(reader)
            writer.write(answer)
            await writer.drain()

    async with talking(keep_alive) as url, providing(endpoint(url)) as provider:
        for _ in range(5):
            await provider.complete(asking())

    assert opened == 1


async def test_a_rate_limit_is_waited_for_as_long_as_it_says() -> None:
    clock = SkippingClock()
    async with scripted("rate_limit@1,retry_after=7", clock=clock) as provider:
        reply = await provider.complete(asking())

    assert reply.attempts == 2
    assert sum(clock.slept_s) == pytest.approx(7.0)
    metrics = provider.metrics()
    assert (metrics.attempts, metrics.retries, metrics.paused_count) == (2, 1, 1)


async def test_a_rate_limit_pauses_every_caller() -> None:
    clock = SkippingClock()
    async with scripted("rate_limit@1,retry_after=7", clock=clock) as provider:
        sent_s: list[float] = []

        async def ask() -> None:
            await provider.complete(asking())
            sent_s.append(clock.monotonic_s())

        began_s = clock.monotonic_s()
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(ask)

    assert len(sent_s) == 8
    # One call of the first two may have been on its way already.
    assert sum(at_s - began_s >= 7 for at_s in sent_s) >= 7
    assert provider.metrics().paused_count == 1


async def test_a_storm_of_rate_limits_ends_after_the_allowed_attempts() -> None:
    clock = SkippingClock()
    async with scripted("rate_limit", clock=clock) as provider:
        with pytest.raises(ProviderError, match=r"HTTP 429.*attempt 3") as caught:
            await provider.complete(asking())

    assert caught.value.code == "provider_unavailable"
    assert provider.metrics().attempts == 3
    # Full jitter: at most 0.5 and 1.0 seconds.
    assert len(clock.slept_s) == 2
    assert all(slept <= bound for slept, bound in zip(clock.slept_s, (0.5, 1.0), strict=True))


async def test_a_wait_beyond_reason_fails_at_once() -> None:
    clock = SkippingClock()
    async with scripted("rate_limit,retry_after=3600", clock=clock) as provider:
        with pytest.raises(ProviderError, match="attempt 1"):
            await provider.complete(asking())

    assert clock.slept_s == []


async def test_backoff_is_bounded() -> None:
    clock = SkippingClock()
    async with scripted("server_error", clock=clock, max_attempts=12) as provider:
        with pytest.raises(ProviderError):
            await provider.complete(asking())

    assert len(clock.slept_s) == 11
    assert 1.0 < max(clock.slept_s) <= MAX_BACKOFF_S


async def test_an_exhausted_account_is_asked_once() -> None:
    async with scripted("quota") as provider:
        with pytest.raises(ProviderQuotaError) as caught:
            await provider.complete(asking())

    assert caught.value.code == "provider_quota_exhausted"
    assert provider.metrics().attempts == 1


@pytest.mark.parametrize(
    "answer",
    [
        (402, "{}"),
        (403, '{"error": {"code": "billing_not_active"}}'),
        (400, '{"error": {"type": "credit_balance_too_low"}}'),
    ],
)
async def test_other_words_for_an_exhausted_account_are_known(answer: tuple[int, str]) -> None:
    async with recorded(answer) as (provider, recorder):
        with pytest.raises(ProviderQuotaError):
            await provider.complete(asking())

    assert len(recorder.bodies) == 1


@pytest.mark.parametrize("fault", ["server_error", "unavailable", "drop", "garbage", "no_choices"])
async def test_a_passing_fault_costs_an_attempt_and_nothing_else(fault: str) -> None:
    async with scripted(f"{fault}@1") as provider:
        assert (await provider.complete(asking())).attempts == 2


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 520, 527])
async def test_transient_statuses_are_tried_again(status: int) -> None:
    async with recorded((status, "{}"), (200, GOOD)) as (provider, _):
        assert (await provider.complete(asking())).attempts == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
async def test_refusals_are_not_tried_again(status: int) -> None:
    async with recorded((status, "{}")) as (provider, recorder):
        with pytest.raises(ProviderError) as caught:
            await provider.complete(asking())

    assert caught.value.code == "provider_request_refused"
    assert len(recorder.bodies) == 1


async def test_an_answer_cut_by_length_is_not_asked_for_again_but_paid_for() -> None:
    async with scripted("truncated") as provider:
        with pytest.raises(ProviderReplyError, match="cut") as caught:
            await provider.complete(asking())

    metrics = provider.metrics()
    assert metrics.attempts == 1
    assert metrics.usage_by_role[ModelRole.PLANNER] == TokenUsage.charged_by(caught.value)
    assert caught.value.charged.prompt_tokens > 0
    assert caught.value.charged.completion_tokens > 0
    assert caught.value.charged.sources == {UsageSource.PROVIDER: 1}


async def test_empty_answers_are_tried_again_and_every_one_is_paid_for() -> None:
    async with recorded((200, EMPTY), (200, GOOD)) as (provider, _):
        reply = await provider.complete(asking())

    assert reply.attempts == 2
    assert reply.usage.total_tokens == 18
    assert reply.usage.sources == {UsageSource.PROVIDER: 2}
    assert provider.metrics().usage_by_role == {ModelRole.PLANNER: reply.usage}


@pytest.mark.parametrize("status", [503, 400, 401])
async def test_an_empty_answer_before_an_endpoint_fails_for_good_is_paid_for(status: int) -> None:
    async with recorded((200, EMPTY), (status, "{}")) as (provider, _):
        with pytest.raises(ProviderError) as caught:
            await provider.complete(asking())

    assert caught.value.tokens == 9


async def test_answers_that_stay_empty_are_a_reply_error() -> None:
    async with scripted("empty") as provider:
        with pytest.raises(ProviderReplyError, match="attempt 3"):
            await provider.complete(asking())


STREAM = 'data: {"choices": [{"delta": {"content": "{"}}]}\n\ndata: [DONE]\n\n'
BROKEN_OFF = (
    '{"choices": [{"message": {"content": "{\\"a\\""}, "finish_reason": "error",'
    ' "error": {"message": "upstream idle"}}]}'
)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<html><h1>Sign in</h1></html>", "<h1>Sign in</h1>"),
        (STREAM, r"data: \[DONE\]"),
        ('{"choices": []}', '"choices": \\[\\]'),
        ('{"detail": "no such model"}', "no such model"),
        ('{"choices": [{"text": "old format"}]}', "old format"),
        (BROKEN_OFF, "upstream idle"),
        ('{"error": {"message": "overloaded"}}', "overloaded"),
        ('{"error": "the worker died", "choices": null}', "the worker died"),
        ('{"error": {"message": "bad gateway", "code": 502}}', "502.*bad gateway"),
        ('{"error": {"detail": ["a"]}}', "detail"),
        ("", "no chat completion"),
    ],
)
async def test_what_comes_with_200_in_place_of_an_answer_says_nothing_about_the_model(
    body: str, words: str
) -> None:
    async with recorded((200, body)) as (provider, recorder):
        with pytest.raises(ProviderError, match=f"HTTP 200.*{words}.*attempt 3") as caught:
            await provider.complete(asking())

    assert not isinstance(caught.value, ProviderReplyError)
    assert caught.value.code == "provider_unavailable"
    assert caught.value.tokens == 0
    assert provider.metrics().usage_by_role == {}
    assert len(recorder.bodies) == 3


async def test_no_answer_with_200_is_reason_to_ask_the_fallback_at_once() -> None:
    async with scripted("garbage", fallback="") as provider:
        reply = await provider.complete(asking())

    assert (reply.endpoint, reply.attempts) == (Endpoint.FALLBACK, 2)


async def test_what_an_answer_without_a_choice_says_it_cost_is_paid() -> None:
    body = json.dumps({**json.loads(GOOD), "choices": []})
    async with recorded((200, body), (200, GOOD)) as (provider, _):
        reply = await provider.complete(asking())

    assert (reply.usage.total_tokens, reply.usage.sources) == (18, {UsageSource.PROVIDER: 2})


@pytest.mark.parametrize(
    "said",
    [
        {"message": "quota exceeded", "code": 402},
        {"message": "quota exceeded", "code": "402"},
        {"message": "quota exceeded", "type": "insufficient_quota", "code": 429},
    ],
)
async def test_an_exhausted_account_that_is_told_with_200_is_asked_once(
    said: dict[str, object],
) -> None:
    body = json.dumps({"error": said, "usage": {"total_tokens": 9}})
    async with recorded((200, body)) as (provider, recorder):
        with pytest.raises(ProviderQuotaError, match="quota exceeded") as caught:
            await provider.complete(asking())

    assert len(recorder.bodies) == 1
    assert caught.value.tokens == 0
    assert provider.metrics().usage_by_role == {}


@pytest.mark.parametrize("named", [{"code": 429}, {"type": "rate_limit_error"}])
async def test_a_rate_limit_that_is_told_with_200_pauses_everybody(
    named: dict[str, object],
) -> None:
    limited = json.dumps({"error": {"message": "slow down", **named}})
    async with recorded((200, limited), (200, GOOD)) as (provider, _):
        assert (await provider.complete(asking())).attempts == 2

    assert provider.metrics().paused_count == 1


async def test_a_refusal_that_is_told_with_200_is_not_tried_again() -> None:
    body = json.dumps({"error": {"message": "no such key", "code": 401}})
    async with recorded((200, body)) as (provider, recorder):
        with pytest.raises(ProviderError, match="no such key") as caught:
            await provider.complete(asking())

    assert caught.value.code == "provider_request_refused"
    assert len(recorder.bodies) == 1


async def test_an_error_of_null_is_none() -> None:
    body = json.dumps({**json.loads(GOOD), "error": None})
    async with recorded((200, body)) as (provider, _):
        assert (await provider.complete(asking())).text == '{"a": 1}'


async def test_a_stalled_endpoint_is_left_after_the_timeout() -> None:
    async with scripted("stall@1", timeout_s=0.2) as provider:
        assert (await provider.complete(asking())).attempts == 2

    async with scripted("stall", timeout_s=0.1) as provider:
        with pytest.raises(ProviderError, match=r"no answer in 0\.1 s"):
            await provider.complete(asking())


async def _one_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(line for line in lines if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.split(b":")[1]))


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, so that no single read ever times out."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await asyncio.sleep(0.02)


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _one_request(reader)
    writer.transport.abort()


async def _speak_another_protocol(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(b"220 mail.example ESMTP\r\n")
    await writer.drain()
    await reader.read()


async def _promise_gzip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _one_request(reader)
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip"
    writer.write(f"{head}\r\ncontent-length: 4\r\n\r\nnope".encode())
    await writer.drain()
    await reader.read()


@pytest.mark.parametrize(
    "talk", [_trickle, _hang_up, _reset, _speak_another_protocol, _promise_gzip]
)
async def test_a_server_that_breaks_the_protocol_is_a_provider_error(talk: Talk) -> None:
    async with (
        talking(talk) as url,
        providing(endpoint(url, timeout_s=0.2)) as provider,
    ):
        with anyio.fail_after(5), pytest.raises(ProviderError) as caught:
            await provider.complete(asking())

    assert caught.value.code == "provider_unavailable"
    assert provider.metrics().attempts == 3
    assert provider.metrics().active == 0


async def test_nobody_at_home_is_a_provider_error() -> None:
    async with serving(Recorder((200, GOOD)).app()) as url:
        pass
    async with providing(endpoint(url)) as provider:
        with pytest.raises(ProviderError, match=r"127\.0\.0\.1"):
            await provider.complete(asking())


@pytest.mark.parametrize(
    "fault", ["unavailable", "rate_limit", "unauthorized", "quota", "overloaded", "drop"]
)
async def test_the_fallback_answers_at_once_and_is_asked_first_from_then_on(fault: str) -> None:
    clock = SkippingClock()
    async with scripted(fault, fallback="", clock=clock) as provider:
        first = await provider.complete(asking())
        second = await provider.complete(asking())

    assert (first.endpoint, first.attempts) == (Endpoint.FALLBACK, 2)
    assert (second.endpoint, second.attempts) == (Endpoint.FALLBACK, 1)
    assert clock.slept_s == []
    metrics = provider.metrics()
    assert (metrics.fallback_count, metrics.paused_count) == (2, 0)


async def test_a_failing_fallback_leads_back_to_the_primary() -> None:
    async with scripted("unavailable@1", fallback="unavailable@2") as provider:
        replies = [await provider.complete(asking()) for _ in range(3)]

    endpoints = [reply.endpoint for reply in replies]
    assert endpoints == [Endpoint.FALLBACK, Endpoint.PRIMARY, Endpoint.PRIMARY]


@pytest.mark.parametrize("fault", ["server_error@1", "empty@1"])
async def test_a_passing_fault_of_the_primary_alone_is_no_reason_to_leave_it(fault: str) -> None:
    async with scripted(fault, fallback="") as provider:
        assert (await provider.complete(asking())).endpoint is Endpoint.PRIMARY


async def test_two_rate_limited_endpoints_pause_everybody() -> None:
    clock = SkippingClock()
    faults = "rate_limit,retry_after=5"
    async with scripted(faults, fallback=faults, clock=clock) as provider:
        with pytest.raises(ProviderError):
            await provider.complete(asking())

    assert provider.metrics().paused_count == 1
    assert sum(clock.slept_s) == pytest.approx(5.0)


async def test_two_exhausted_accounts_are_each_asked_once() -> None:
    async with scripted("quota", fallback="quota") as provider:
        with pytest.raises(ProviderQuotaError):
            await provider.complete(asking())

    assert provider.metrics().attempts == 2


async def test_an_endpoint_that_refused_the_key_is_not_asked_again_in_the_same_call() -> None:
    async with scripted("unauthorized", fallback="unavailable@1") as provider:
        reply = await provider.complete(asking())

    assert (reply.endpoint, reply.attempts) == (Endpoint.FALLBACK, 3)


async def test_a_call_that_finds_no_slot_in_time_sends_nothing() -> None:
    clock = SystemClock()
    limiter = ProviderLimiter(1, queue_timeout_s=0.05, clock=clock)
    recorder = Recorder((200, GOOD))
    async with (
        serving(recorder.app()) as url,
        providing(endpoint(url), clock=clock, limiter=limiter) as provider,
        limiter.slot(),
    ):
        with pytest.raises(ProviderQueueTimeout) as caught:
            await provider.complete(asking())

    assert caught.value.code == "provider_queue_timeout"
    assert recorder.bodies == []
    metrics = provider.metrics()
    assert (metrics.queue_timeout_count, metrics.attempts) == (1, 0)


async def test_the_slot_is_kept_over_the_retries_of_a_call() -> None:
    clock = SkippingClock()
    limiter = ProviderLimiter(1, queue_timeout_s=180.0, clock=clock)
    recorder = Recorder((503, "{}"), (503, "{}"), (200, GOOD))
    async with (
        serving(recorder.app()) as url,
        providing(endpoint(url), clock=clock, limiter=limiter) as provider,
        anyio.create_task_group() as group,
    ):
        group.start_soon(provider.complete, asking("first"))
        group.start_soon(provider.complete, asking("second"))

    asked = [json.loads(body)["messages"][1]["content"] for body in recorder.bodies]
    assert asked == ["first", "first", "first", "second"]
    assert provider.metrics().max_active == 1


async def test_a_call_cancelled_on_the_wire_gives_its_slot_back() -> None:
    arrived, hung_up = anyio.Event(), anyio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _one_request(reader)
        arrived.set()
        await reader.read()
        hung_up.set()

    async with talking(listen) as url, providing(endpoint(url)) as provider:
        async with anyio.create_task_group() as group:
            group.start_soon(provider.complete, asking())
            await arrived.wait()
            assert provider.metrics().active == 1
            group.cancel_scope.cancel()
        assert provider.metrics().active == 0
        with anyio.fail_after(5):
            await hung_up.wait()


@pytest.mark.parametrize(
    ("usage", "source", "total"),
    [
        ({"total_tokens": 50}, UsageSource.PROVIDER, 50),
        ({"prompt_tokens": 3, "completion_tokens": 4}, UsageSource.PROVIDER_DERIVED, 7),
        (
            {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 0},
            UsageSource.PROVIDER_DERIVED,
            7,
        ),
        ({"total_tokens": -5}, UsageSource.ESTIMATED, None),
        ({"total_tokens": "many"}, UsageSource.ESTIMATED, None),
        ([], UsageSource.ESTIMATED, None),
        (None, UsageSource.ESTIMATED, None),
    ],
)
async def test_tokens_are_counted_by_the_best_source_there_is(
    usage: object, source: UsageSource, total: int | None
) -> None:
    body = json.dumps({**json.loads(GOOD), "usage": usage})
    async with recorded((200, body)) as (provider, _):
        reply = await provider.complete(asking())

    assert reply.usage.sources == {source: 1}
    if total is None:
        assert reply.usage.total_tokens > 0
    else:
        assert reply.usage.total_tokens == total


async def test_the_key_is_nowhere_to_be_read(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with scripted("unauthorized") as provider:
        with pytest.raises(ProviderError, match=r"\[key\]") as caught:
            await provider.complete(asking())

    assert KEY not in caplog.text
    assert KEY not in repr(endpoint("http://localhost"))
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_no_header_could_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        EndpointConfig(base_url="http://localhost", model="m", api_key=key)

    assert key not in str(caught.value)


async def test_an_endpoint_without_a_key_can_be_asked() -> None:
    recorder = Recorder((200, GOOD))
    async with (
        serving(recorder.app()) as url,
        providing(EndpointConfig(base_url=url, model="m")) as provider,
    ):
        assert (await provider.complete(asking())).text


async def test_an_endpoint_that_wants_other_words_gets_them_within_the_same_attempt() -> None:
    refusals = [
        json.dumps({"error": {"code": "unsupported_parameter", "param": field, "message": "no"}})
        for field in ("max_tokens", "temperature")
    ]
    async with recorded((400, refusals[0]), (400, refusals[1]), (200, GOOD)) as (provider, got):
        first = await provider.complete(asking())
        await provider.complete(asking())

    assert first.attempts == 1
    bodies = [json.loads(body) for body in got.bodies]
    assert [sorted(body.keys() & {"max_tokens", "temperature"}) for body in bodies] == [
        ["max_tokens", "temperature"],
        ["temperature"],
        [],
        [],
    ]
    assert bodies[-1]["max_completion_tokens"] == 512


async def test_a_ping_is_retried_like_any_call_and_may_be_cut() -> None:
    async with scripted("unavailable@1") as provider:
        assert await provider.ping() == "scripted-planner"

    async with scripted("unavailable") as provider:
        with pytest.raises(ProviderError):
            await provider.ping()


@pytest.mark.parametrize(
    "body",
    ['{"error": {"message": "no", "code": 402}}', "<html>no</html>", '{"choices": [], "no": 1}'],
)
async def test_a_ping_that_gets_no_answer_is_not_answered(body: str) -> None:
    async with recorded((200, body)) as (provider, _):
        with pytest.raises(ProviderError, match="no"):
            await provider.ping()
