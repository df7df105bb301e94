"""Requests, providers and endpoints for provider tests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from openeta_exp.adapters.provider.endpoint import EndpointConfig
from openeta_exp.adapters.provider.limiter import ProviderLimiter
from openeta_exp.adapters.provider.meter import SpendingMeter
from openeta_exp.adapters.provider.openai_provider import OpenAiProvider
from openeta_exp.domain.model import ModelImage, ModelMessage, ModelRequest, ModelRole
from openeta_exp.embedded.models.server import create_app
from openeta_exp.ports.clock import Clock
from tests.manual_clock import SkippingClock
from tests.serving import serving

KEY = "sk-very-secret-0123456789"
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
MODEL = "scripted-planner"


def asking(
    text: str = "hello",
    *,
    role: ModelRole = ModelRole.PLANNER,
    images: Sequence[bytes] = (),
    max_output_tokens: int = 512,
) -> ModelRequest:
    attached = tuple(ModelImage(label=f"view {at}", png=png) for at, png in enumerate(images))
    return ModelRequest(
        role=role,
        messages=(
            ModelMessage(role="system", text="Answer in JSON"),
            ModelMessage(role="user", text=text, images=attached),
        ),
        max_output_tokens=max_output_tokens,
    )


def endpoint(url: str, *, model: str = MODEL, timeout_s: float = 5.0) -> EndpointConfig:
    return EndpointConfig(base_url=url, model=model, api_key=KEY, timeout_s=timeout_s)


@asynccontextmanager
async def providing(
    primary: EndpointConfig,
    *,
    fallback: EndpointConfig | None = None,
    clock: Clock | None = None,
    limiter: ProviderLimiter | None = None,
    limit: int = 2,
    queue_timeout_s: float = 180.0,
    max_attempts: int = 3,
    meter: SpendingMeter | None = None,
) -> AsyncIterator[OpenAiProvider]:
    clock = clock or SkippingClock()
    provider = OpenAiProvider(
        primary,
        fallback=fallback,
        limiter=limiter or ProviderLimiter(limit, queue_timeout_s=queue_timeout_s, clock=clock),
        clock=clock,
        max_attempts=max_attempts,
        rng=random.Random(0),
        meter=meter,
    )
    try:
        yield provider
    finally:
        await provider.aclose()


@asynccontextmanager
async def scripted(
    faults: str = "",
    *,
    fallback: str | None = None,
    clock: Clock | None = None,
    timeout_s: float = 5.0,
    max_attempts: int = 3,
) -> AsyncIterator[OpenAiProvider]:
    """A provider over the scripted models; a faults line for each endpoint."""
    async with serving(create_app()) as url:
        lines = {"primary": faults, "fallback": fallback}
        configs = {
            name: endpoint(url, model=f"{MODEL}+{line}" if line else MODEL, timeout_s=timeout_s)
            for name, line in lines.items()
            if line is not None
        }
        async with providing(
            configs["primary"],
            fallback=configs.get("fallback"),
            clock=clock,
            max_attempts=max_attempts,
        ) as provider:
            yield provider


class Recorder:
    """An endpoint that keeps what it was sent and answers as it is told, the last word for ever.

    Attributes:
        answers: Status and body, in order.
    """

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers = list(answers)
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.paths: Counter[str] = Counter()

    async def answer(self, request: Request) -> Response:
        self.bodies.append(await request.body())
        self.headers.append(dict(request.headers))
        self.paths[request.url.path] += 1
        status, body = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        return Response(body, status_code=status, media_type="application/json")

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self.answer, methods=["POST"])])
