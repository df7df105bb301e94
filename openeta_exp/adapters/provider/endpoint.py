"""One OpenAI-compatible endpoint through the official client: one request, no retries."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import anyio
from anyio import to_thread

from openeta_exp.adapters.provider.dialect import Dialect
from openeta_exp.adapters.provider.failures import (
    Failure,
    classify,
    no_completion,
    presentable,
    status_named,
    unreachable,
)
from openeta_exp.adapters.provider.token_accounting import reported_usage
from openeta_exp.domain.model import ModelRequest
from openeta_exp.errors import SettingsError
from openeta_exp.ports.clock import Clock
from openeta_exp.wire.openai_chat import (
    BROKEN_OFF,
    COMPLETIONS_PATH,
    ChatFormatError,
    ChatReply,
    ReportedError,
    parse_reply,
    render_request,
)

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

logger = logging.getLogger(__name__)

MAX_CONNECT_S = 10.0
IDLE_S = 60.0
"""How long an unused connection is kept: a motion of the robot takes longer than the usual 5 s."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_KEY = "none"


def load_openai() -> None:
    """Import the client now rather than with the first call; it takes seconds of CPU."""
    import openai  # noqa: F401


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointConfig:
    """Where a model is served.

    Attributes:
        base_url: With its version path; a bare host gets `/v1`.
        api_key: Empty for endpoints that want none.
        timeout_s: For one request, from connecting to the last byte.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        """Raises: SettingsError: If the key cannot stand in a header."""
        if any(not 32 < ord(character) < 127 for character in self.api_key):
            raise SettingsError(
                f"the API key for {self.base_url} holds blanks or characters outside ASCII"
            )

    @property
    def root(self) -> str:
        """The base URL as the client wants it."""
        parts = urlsplit(self.base_url)
        path = parts.path.rstrip("/") or "/v1"
        return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))

    @property
    def is_local(self) -> bool:
        return urlsplit(self.base_url).hostname in _LOOPBACK


class ChatEndpoint:
    """Sends requests over kept-alive connections. May be used by any number of tasks."""

    def __init__(self, config: EndpointConfig, *, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._client: AsyncOpenAI | None = None
        self._opening = anyio.Lock()
        self._dialect = Dialect()

    @property
    def model(self) -> str:
        return self._config.model

    async def open(self) -> AsyncOpenAI:
        """The client, made on first use: importing it takes a second, in a thread."""
        if self._client is not None:
            return self._client
        async with self._opening:
            if self._client is None:
                self._client = await to_thread.run_sync(self._make_client)
            return self._client

    async def send(self, request: ModelRequest, *, max_images: int) -> ChatReply | Failure:
        """Ask once. Whatever goes wrong outside comes back as a `Failure`.

        If the endpoint refuses an optional field, the request is worded without it and sent
        again at once; later requests are worded like that from the start.
        """
        client = await self.open()
        # The client's own timeout is per read: an endpoint that trickles would hold it for ever.
        with anyio.move_on_after(self._config.timeout_s):
            while True:
                outcome = await self._post(client, self._render(request, max_images))
                if outcome is not None:
                    return outcome
        return self._too_slow()

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()

    def _render(self, request: ModelRequest, max_images: int) -> bytes:
        return render_request(
            request,
            model=self._config.model,
            max_images=max_images,
            max_tokens_field=self._dialect.max_tokens_field,
            omit=self._dialect.omit,
        )

    async def _post(self, client: AsyncOpenAI, body: bytes) -> ChatReply | Failure | None:
        """None: the endpoint wants other words, and they are known now."""
        import httpx2
        import openai

        dialect = self._dialect
        try:
            # `chat.completions.create` walks every message against its type hints: 5 ms of CPU
            # for a conversation of 20 messages. The body is rendered here, and posted as it is.
            text = await client.post(
                COMPLETIONS_PATH,
                cast_to=str,
                content=body,
                options={"headers": {"Content-Type": "application/json"}},
            )
            return self._read(text)
        except openai.APIStatusError as error:
            return None if self._adapt(error, dialect) else self._classify(error)
        except openai.APITimeoutError:
            return self._too_slow()
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            never_sent = isinstance(cause, httpx2.ConnectError)
            return unreachable(self._said(f"{type(cause).__name__}: {cause}"), sent=not never_sent)

    def _read(self, text: str) -> ChatReply | Failure:
        """What came with HTTP 200: a completion with a choice, or anything else."""
        try:
            reply = parse_reply(text)
        except ChatFormatError as error:
            problem = str(error).partition("; ")[0]
            return no_completion(
                self._said(f"HTTP 200, but no chat completion ({problem}): {text}")
            )
        if reply.error is not None:
            return self._classify_named(reply.error)
        if not reply.choices or reply.finish_reason == BROKEN_OFF:
            return no_completion(
                self._said(f"HTTP 200, but a completion without an answer: {text}"),
                charged=reported_usage(reply.usage),
            )
        return reply

    def _adapt(self, error: APIStatusError, dialect: Dialect) -> bool:
        """Learn from a refusal of the dialect the request was worded in."""
        text = f"{error.code} {error.message}"
        adapted = dialect.after_refusal(error.status_code, parameter=error.param or "", text=text)
        if adapted is None:
            return False
        joined = self._dialect.joined(adapted)
        if joined != self._dialect:
            logger.warning("%s; asking in other words", self._said(error.message))
        self._dialect = joined
        return True

    def _classify(self, error: APIStatusError) -> Failure:
        return classify(
            error.status_code,
            codes=frozenset(each for each in (error.code, error.type) if isinstance(each, str)),
            text=self._said(f"HTTP {error.status_code}: {error.message}"),
            headers=error.response.headers,
            now_unix_s=self._clock.unix_s(),
        )

    def _classify_named(self, error: ReportedError) -> Failure:
        named = ", ".join(sorted(error.codes)) or "without a code"
        return classify(
            status_named(error.codes),
            codes=error.codes,
            text=self._said(f"HTTP 200, but an error ({named}): {error.message}"),
            headers={},
            now_unix_s=self._clock.unix_s(),
        )

    def _too_slow(self) -> Failure:
        return unreachable(self._said(f"no answer in {self._config.timeout_s:g} s"), sent=True)

    def _said(self, text: str) -> str:
        where = f"{self._config.model} at {urlsplit(self._config.base_url).hostname}"
        return presentable(f"{where}: {text}", secret=self._config.api_key)

    def _make_client(self) -> AsyncOpenAI:
        import httpx2
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        timeout_s = self._config.timeout_s
        return AsyncOpenAI(
            base_url=self._config.root,
            api_key=self._config.api_key or _NO_KEY,
            max_retries=0,
            timeout=Timeout(timeout_s, connect=min(timeout_s, MAX_CONNECT_S)),
            http_client=DefaultAsyncHttpxClient(
                # A proxy named in the environment is for the outside world.
                trust_env=not self._config.is_local,
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=64, keepalive_expiry=IDLE_S
                ),
            ),
        )
