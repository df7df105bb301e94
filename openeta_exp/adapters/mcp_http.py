"""The HTTP below an MCP connection: a request that breaks costs one call, not all of them.

The SDK lets an error of one request end the client, and with it every other call in flight. Here
such an error becomes an answer to that request alone. What happened to the request of one call is
noted for that call, because the SDK's errors do not tell a request that was never run from one
whose answer was lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import httpx2

CONNECT_TIMEOUT_S = 30.0
_SESSION_HEADER = "mcp-session-id"
_UNKNOWN_SESSION = (400, 404)
"""What servers answer to a session they do not know (any more); 400 is older."""
_GATEWAY = (502, 503, 504)


@dataclass(slots=True)
class Attempt:
    """What became of the request of one call.

    Attributes:
        lost: How the connection broke under it, or which gateway answered instead of the server.
        unknown_session: The server refused it unread, because it does not know the session.
    """

    lost: str = ""
    unknown_session: bool = False


ATTEMPT: ContextVar[Attempt | None] = ContextVar("attempt", default=None)
"""Set by the caller; the SDK runs a request in the context of the task that asked for it."""


@dataclass(slots=True)
class Traffic:
    """What went over the connection.

    Attributes:
        posts: Requests that were begun. A call during which the count stood still was never sent.
        contained: Whether an error ends one request only.
    """

    posts: int = 0
    contained: bool = False
    on_refused_post: Callable[[], None] = field(default=lambda: None)


class McpHttpClient(httpx2.AsyncClient):
    """Without read timeout: calls have their own. See the module's docstring."""

    def __init__(self, traffic: Traffic, *, trust_env: bool) -> None:
        super().__init__(
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=64,
                # Servers end idle connections, uvicorn after 5 s; a request must not meet that.
                keepalive_expiry=3.0,
            ),
            trust_env=trust_env,
        )
        self._traffic = traffic

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        posted = request.method == "POST"
        self._traffic.posts += posted
        attempt = (ATTEMPT.get() if posted else None) or Attempt()
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            attempt.lost = _said(error)
            if posted:
                self._traffic.on_refused_post()
            if not self._traffic.contained:
                raise
            return httpx2.Response(503, request=request)
        if posted and response.status_code >= 400:
            if response.status_code in _GATEWAY:
                attempt.lost = f"HTTP {response.status_code}"
            attempt.unknown_session = response.status_code in _UNKNOWN_SESSION and (
                _SESSION_HEADER in request.headers or "session_id" in request.url.params
            )
            self._traffic.on_refused_post()
        if self._traffic.contained:
            response.stream = _Contained(
                cast("httpx2.AsyncByteStream", response.stream), attempt=attempt
            )
        return response


class _Contained(httpx2.AsyncByteStream):
    """A body that ends where the connection broke."""

    def __init__(self, body: httpx2.AsyncByteStream, *, attempt: Attempt) -> None:
        self._body = body
        self._attempt = attempt

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._body:
                yield chunk
        except httpx2.TransportError as error:
            self._attempt.lost = _said(error)

    async def aclose(self) -> None:
        await self._body.aclose()


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
