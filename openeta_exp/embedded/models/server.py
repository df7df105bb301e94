"""The OpenAI-compatible web application around the scripted models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import anyio
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from openeta_exp.domain.model import ModelMessage, TokenUsage
from openeta_exp.embedded.models.registry import MODELS, ScriptedModel
from openeta_exp.wire.chat_tokens import message_tokens, text_tokens
from openeta_exp.wire.model_faults import FaultKind, FaultPlan, parse_faults
from openeta_exp.wire.openai_chat import (
    ChatFormatError,
    ChatRequest,
    parse_request,
    render_completion,
    render_error,
)
from openeta_exp.wire.scripted_models import FAULTS_SEPARATOR

FAULTS_HEADER = "x-openeta-faults"
"""A faults line for one request; takes the place of the server's own."""
_GONE = 499
"""What nginx puts down for a client that did not wait; nobody receives it."""


def create_app(
    models: Mapping[str, ScriptedModel] = MODELS, *, faults: FaultPlan | None = None
) -> Starlette:
    """`/v1/chat/completions` and `/v1/models`. May be mounted under any path.

    Args:
        faults: Applied to every request that brings no faults of its own.
    """
    service = _ModelService(models, faults or FaultPlan())
    return Starlette(
        routes=[
            Route("/v1/chat/completions", service.complete, methods=["POST"]),
            Route("/v1/models", service.list_models, methods=["GET"]),
        ]
    )


class _ModelService:
    def __init__(self, models: Mapping[str, ScriptedModel], faults: FaultPlan) -> None:
        self._models = models
        self._faults = faults
        self._requests: Counter[FaultPlan] = Counter()
        self._answers = 0

    async def list_models(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "object": "list",
                "data": [
                    {"id": name, "object": "model", "created": 0, "owned_by": "openeta_exp"}
                    for name in self._models
                ],
            }
        )

    async def complete(self, request: Request) -> Response:
        arrived_s = anyio.current_time()
        try:
            chat = parse_request(await request.body())
            name, _, suffix = chat.model.partition(FAULTS_SEPARATOR)
            line = request.headers.get(FAULTS_HEADER) or suffix
            plan = parse_faults(line) if line else self._faults
        except ClientDisconnect:
            # Whoever asked has been interrupted, in the middle of what it sent.
            return Response(status_code=_GONE)
        except (ChatFormatError, ValueError) as error:
            return _error(400, str(error), kind="invalid_request_error")
        if name not in self._models:
            message = f"there is no model {name!r}; use one of {', '.join(self._models)}"
            return _error(404, message, kind="invalid_request_error", code="model_not_found")
        if chat.stream:
            return _error(400, "streaming is not offered", kind="invalid_request_error")
        self._requests[plan] += 1
        fault = plan.fault(self._requests[plan])
        if fault is FaultKind.STALL:
            await _until_disconnect(request)
            return Response(status_code=_GONE)
        response = _refusal(fault, plan, request) or self._answer(chat, name, fault)
        # The answer leaves so long after the request came, however long the thinking took.
        await anyio.sleep_until(arrived_s + plan.latency_s)
        return response

    def _answer(self, chat: ChatRequest, name: str, fault: FaultKind | None) -> Response:
        messages = chat.conversation()
        text = self._models[name](messages)
        limit = chat.max_completion_tokens or chat.max_tokens
        finish_reason = "stop"
        if fault is FaultKind.TRUNCATED:
            text, finish_reason = text[: len(text) // 2], "length"
        elif fault is FaultKind.MALFORMED:
            text = "Sure! I would move the arm {to the left"
        elif fault is FaultKind.EMPTY:
            text = ""
        elif limit is not None and text_tokens(text) > limit:
            text, finish_reason = text[: 4 * limit], "length"
        self._answers += 1
        completion = render_completion(
            text,
            model=name,
            usage=None if fault is FaultKind.NO_USAGE else _usage(messages, text),
            identifier=f"chatcmpl-{self._answers}",
            finish_reason=finish_reason,
        )
        if fault is FaultKind.NO_CHOICES:
            completion["choices"] = []
        if fault is FaultKind.DROP:
            return _DroppedResponse(completion)
        return JSONResponse(completion)


class _DroppedResponse(JSONResponse):
    """Promises a whole body and sends half of it; the server then closes the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})


def _usage(messages: Sequence[ModelMessage], text: str) -> TokenUsage:
    prompt = sum(message_tokens(message) for message in messages)
    completion = text_tokens(text)
    return TokenUsage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )


def _refusal(fault: FaultKind | None, plan: FaultPlan, request: Request) -> Response | None:
    match fault:
        case FaultKind.RATE_LIMIT:
            headers = {} if plan.retry_after is None else {"retry-after": plan.retry_after}
            return _error(429, "too many requests", kind="rate_limit_error", headers=headers)
        case FaultKind.QUOTA:
            return _error(
                429,
                "you exceeded your current quota",
                kind="insufficient_quota",
                code="insufficient_quota",
            )
        case FaultKind.SERVER_ERROR:
            return _error(500, "something broke", kind="server_error")
        case FaultKind.OVERLOADED:
            return _error(500, "the engine is at capacity", kind="server_error")
        case FaultKind.UNAVAILABLE:
            return _error(503, "come back later", kind="server_error")
        case FaultKind.UNAUTHORIZED:
            key = request.headers.get("authorization", "").removeprefix("Bearer ")
            return _error(401, f"incorrect key {key}", kind="invalid_request_error")
        case FaultKind.GARBAGE:
            return PlainTextResponse("<html>proxy says hello</html>")
        case _:
            return None


def _error(
    status: int,
    message: str,
    *,
    kind: str,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = render_error(message, kind=kind, code=code)
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


async def _until_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
