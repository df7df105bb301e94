"""The scripted models over real HTTP, with the official client."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator

import anyio
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Message, Scope

from openeta_exp.embedded.models.registry import MODELS
from openeta_exp.embedded.models.server import FAULTS_HEADER, create_app
from openeta_exp.wire.agent_command import parse_command
from openeta_exp.wire.model_faults import parse_faults
from tests.serving import serving

pytestmark = pytest.mark.anyio

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def client() -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        serving(create_app()) as url,
        openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="sk-secret", max_retries=0, timeout=5
        ) as client,
    ):
        yield client


async def ask(client: openai.AsyncOpenAI, model: str, *, header: str = "") -> ChatCompletion:
    headers = {FAULTS_HEADER: header} if header else {}
    return await client.chat.completions.create(model=model, messages=HELLO, extra_headers=headers)


async def test_every_registered_model_is_listed_and_answers_with_an_object(
    client: openai.AsyncOpenAI,
) -> None:
    listed = [model.id async for model in client.models.list()]

    assert listed == list(MODELS)
    for name in listed:
        reply = await ask(client, name)
        assert reply.model == name
        assert reply.choices[0].finish_reason == "stop"
        assert isinstance(json.loads(reply.choices[0].message.content or ""), dict)


async def test_a_client_that_is_interrupted_while_it_asks_leaves_no_traceback() -> None:
    app = create_app()
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "headers": [],
        "query_string": b"",
    }
    await app(scope, receive, send)

    assert [each.get("status") for each in sent] == [499, None]


async def test_usage_counts_a_quarter_of_the_bytes(client: openai.AsyncOpenAI) -> None:
    reply = await ask(client, "scripted-planner")
    assert reply.usage is not None
    content = reply.choices[0].message.content or ""

    # "hello" is two tokens, framed by four.
    assert reply.usage.prompt_tokens == 2 + 4
    assert reply.usage.completion_tokens == -(-len(content.encode()) // 4)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


async def test_an_unknown_model_is_answered_with_the_known_ones(
    client: openai.AsyncOpenAI,
) -> None:
    with pytest.raises(openai.NotFoundError, match="scripted-planner"):
        await ask(client, "gpt-9")


async def test_an_answer_longer_than_asked_for_is_cut(client: openai.AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(
        model="scripted-planner", messages=HELLO, max_tokens=2
    )

    assert reply.choices[0].finish_reason == "length"
    assert len(reply.choices[0].message.content or "") == 8


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("rate_limit", 429, None),
        ("quota", 429, "insufficient_quota"),
        ("server_error", 500, None),
        ("overloaded", 500, None),
        ("unavailable", 503, None),
        ("unauthorized", 401, None),
    ],
)
async def test_an_error_is_injected_by_the_model_name(
    client: openai.AsyncOpenAI, fault: str, status: int, code: str | None
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        await ask(client, f"scripted-planner+{fault}")

    assert (caught.value.status_code, caught.value.code) == (status, code)


async def test_a_rate_limit_may_say_how_long_to_wait(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        await ask(client, "scripted-planner", header="rate_limit,retry_after=2.5")

    assert caught.value.response.headers["retry-after"] == "2.5"


async def test_answers_are_spoiled_on_request(client: openai.AsyncOpenAI) -> None:
    truncated = await ask(client, "scripted-planner+truncated")
    empty = await ask(client, "scripted-planner+empty")
    malformed = await ask(client, "scripted-planner+malformed")
    no_choices = await ask(client, "scripted-planner+no_choices")
    no_usage = await ask(client, "scripted-planner+no_usage")

    assert truncated.choices[0].finish_reason == "length"
    assert empty.choices[0].message.content == ""
    with pytest.raises(ValueError, match="JSON"):
        parse_command(malformed.choices[0].message.content or "")
    assert no_choices.choices == []
    assert no_usage.usage is None


async def test_a_stalled_request_gets_no_answer(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.1).chat.completions.create(
            model="scripted-planner+stall", messages=HELLO
        )


async def test_a_dropped_request_ends_in_the_middle(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.APIConnectionError):
        await ask(client, "scripted-planner+drop")


async def test_a_schedule_counts_the_requests_of_its_own_line(
    client: openai.AsyncOpenAI,
) -> None:
    await ask(client, "scripted-planner")
    with pytest.raises(openai.InternalServerError):
        await ask(client, "scripted-planner+server_error@1")
    await ask(client, "scripted-planner+server_error@1")
    with pytest.raises(openai.InternalServerError):
        await ask(client, "scripted-planner+server_error@1,seed=2")


async def test_a_line_that_cannot_be_read_is_a_bad_request(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="nonsense"):
        await ask(client, "scripted-planner+nonsense")


async def test_faults_of_the_server_apply_to_requests_that_bring_none() -> None:
    app = create_app(faults=parse_faults("server_error@1"))
    async with (
        serving(Starlette(routes=[Mount("/models", app=app)])) as url,
        openai.AsyncOpenAI(base_url=f"{url}/models/v1", api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(openai.InternalServerError):
            await ask(client, "scripted-planner")
        assert (await ask(client, "scripted-planner")).choices


async def test_the_command_prints_one_line_with_its_url_and_serves_there() -> None:
    command = [sys.executable, "-m", "openeta_exp.embedded.models", "--port", "0"]
    async with await anyio.open_process(command) as process:
        assert process.stdout is not None
        with anyio.fail_after(60):
            line = await process.stdout.receive()
        async with openai.AsyncOpenAI(
            base_url=json.loads(line)["url"], api_key="k", max_retries=0
        ) as client:
            assert (await ask(client, "scripted-planner")).choices
        process.terminate()
