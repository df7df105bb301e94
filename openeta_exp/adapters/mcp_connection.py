"""One long-lived MCP connection, shared by every task that calls tools over it.

Connecting costs fifty times a call, so a connection is opened once, kept, and opened again only
after it was lost. The SDK's client must be entered and left by one task; that task is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import anyio
from pydantic import BaseModel, ValidationError

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import check_json, parse_json

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.types import CallToolRequest, CallToolResult, ListToolsRequest

    from openeta_exp.adapters.mcp_http import Attempt, Traffic

ResultT = TypeVar("ResultT", bound=BaseModel)

_CONNECT_TIMEOUT_S = 30.0
_LEAVE_TIMEOUT_S = 5.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_MAX_ERROR_CHARACTERS = 2_000
_MAX_PAGES = 100


class Transport(StrEnum):
    """How an MCP server is reached. `auto` is SSE for a URL that ends in `/sse`."""

    AUTO = "auto"
    STREAMABLE_HTTP = "streamable_http"
    SSE = "sse"


class CallFailure(StrEnum):
    """Why a call brought no answer. Only `refused` says that the tool was not run."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    """The server could not be reached, or the connection was lost."""
    PROTOCOL = "protocol"
    """The server answered with something that is no tool result."""
    REFUSED = "refused"
    """The tool is unknown, or its arguments do not fit."""
    TOOL = "tool"
    """The tool broke while it ran; how far it came is not known."""


class McpCallError(Exception):
    """A tool call that brought no answer. Adapters translate it into an error of their port."""

    def __init__(self, failure: CallFailure, message: str) -> None:
        super().__init__(message[:_MAX_ERROR_CHARACTERS])
        self.failure = failure


@dataclass(slots=True, eq=False, kw_only=True)
class _Link:
    """A client from entering to leaving it, all in the one task `keeper`."""

    traffic: Traffic
    client: Client | None = None
    keeper: asyncio.Task[None] | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """The client is there, or never will be."""
    release: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False
    problem: str = "the handshake failed"


class McpConnection:
    """Calls tools of one MCP server. May be used by any number of tasks at once."""

    def __init__(self, url: str, *, transport: Transport = Transport.AUTO) -> None:
        self.url = url
        self._sse = transport is Transport.SSE or (
            transport is Transport.AUTO and urlsplit(url).path.endswith("/sse")
        )
        self._opening = anyio.Lock()
        self._link: _Link | None = None
        self._failures = 0
        self._failure = McpCallError(CallFailure.CONNECTION, "")

    @property
    def public_url(self) -> str:
        """Without user, password and query, which may be secret."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}{parts.path}"

    async def call(self, tool: str, arguments: JsonObject, *, timeout_s: float) -> JsonObject:
        """Have a tool run at most once and return the JSON object it answers with.

        Raises:
            McpCallError: No answer; the connection is opened again by the next call.
        """
        from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

        # Below the SDK's own `call_tool`, which sends a call again on some answers.
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        result = await self._ask(tool, request, CallToolResult, timeout_s=timeout_s)
        return _object_of(tool, result)

    async def list_tools(self, *, timeout_s: float) -> frozenset[str]:
        """Names of the server's tools. Raises: McpCallError."""
        from mcp.types import ListToolsRequest, ListToolsResult, PaginatedRequestParams

        names: set[str] = set()
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
            listed = await self._ask("list_tools", request, ListToolsResult, timeout_s=timeout_s)
            names.update(tool.name for tool in listed.tools)
            cursor = listed.next_cursor
            if cursor is None:
                break
        return frozenset(names)

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        async with self._opening:
            await self._end()

    async def _ask(
        self,
        tool: str,
        request: CallToolRequest | ListToolsRequest,
        result_type: type[ResultT],
        *,
        timeout_s: float,
    ) -> ResultT:
        try:
            with anyio.fail_after(timeout_s):
                try:
                    return await self._send(tool, request, result_type)
                except _NeverRunError:
                    return await self._send(tool, request, result_type)
        except TimeoutError as error:
            raise McpCallError(
                CallFailure.TIMEOUT, f"{tool} did not answer within {timeout_s:g} s"
            ) from error
        except _NeverRunError as error:
            raise McpCallError(CallFailure.CONNECTION, f"{tool}: {error}") from error

    async def _send(
        self, tool: str, request: CallToolRequest | ListToolsRequest, result_type: type[ResultT]
    ) -> ResultT:
        """Raises: _NeverRunError: The server surely did not run it; the connection is gone."""
        from mcp import MCPError

        from openeta_exp.adapters.mcp_http import ATTEMPT, Attempt

        link = await self._connected()
        assert link.client is not None
        attempt, posts = Attempt(), link.traffic.posts
        token = ATTEMPT.set(attempt)
        try:
            return await link.client.session.send_request(request, result_type)
        except ValidationError as error:
            raise McpCallError(
                CallFailure.PROTOCOL, f"{tool}: the answer is no result: {_first(error)}"
            ) from error
        except MCPError as error:
            unsent = _closed(error) and link.traffic.posts == posts
            if unsent or attempt.unknown_session:
                await self._drop(link)
                raise _NeverRunError(f"connection lost ({error})") from error
            raise _translated(tool, error, attempt) from error
        except _lost() as error:
            await self._drop(link)
            raise McpCallError(CallFailure.CONNECTION, f"{tool}: connection lost") from error
        finally:
            ATTEMPT.reset(token)

    async def _connected(self) -> _Link:
        failures = self._failures
        async with self._opening:
            if self._link is not None and not self._link.over:
                return self._link
            if self._failures > failures:
                # Somebody tried while we waited; each trying in turn would add the waits up.
                raise McpCallError(self._failure.failure, str(self._failure))
            await self._end()
            try:
                self._link = await self._open()
            except McpCallError as error:
                self._failures, self._failure = self._failures + 1, error
                raise
            return self._link

    async def _open(self) -> _Link:
        from openeta_exp.adapters.mcp_http import Traffic

        link = _Link(traffic=Traffic())
        link.keeper = asyncio.create_task(self._keep(link))
        try:
            with anyio.fail_after(_CONNECT_TIMEOUT_S):
                await link.settled.wait()
        except TimeoutError as error:
            raise McpCallError(
                CallFailure.TIMEOUT, f"no MCP server answered in {_CONNECT_TIMEOUT_S:g} s"
            ) from error
        finally:
            if link.client is None:
                link.keeper.cancel()
        if link.client is None:
            raise McpCallError(
                CallFailure.CONNECTION,
                f"no MCP server answers at {self.public_url} ({link.problem})",
            )
        return link

    async def _keep(self, link: _Link) -> None:
        """Enter the client, hand it out, and leave it again, all in this one task."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                link.client = await self._entered(link, stack)
                link.settled.set()
                await link.release.wait()
        except* _connect_failures() as group:
            link.problem = _first(group)
        finally:
            link.over = True
            link.settled.set()

    async def _entered(self, link: _Link, stack: contextlib.AsyncExitStack) -> Client:
        from mcp import Client
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        from openeta_exp.adapters.mcp_http import McpHttpClient

        # A proxy never stands between this machine and itself.
        trust_env = urlsplit(self.url).hostname not in _LOOPBACK
        http = McpHttpClient(link.traffic, trust_env=trust_env)
        if self._sse:
            _lift_event_limit()
            transport = sse_client(self.url, httpx_client_factory=lambda *_, **__: http)
            # The answer to a message that was not taken would be waited for until the timeout.
            link.traffic.on_refused_post = link.release.set
            return await stack.enter_async_context(Client(transport, cache=None))
        await stack.enter_async_context(http)
        transport = streamable_http_client(self.url, http_client=http, max_sse_event_size=None)
        client = await stack.enter_async_context(Client(transport, cache=None))
        link.traffic.contained = True
        return client

    async def _drop(self, link: _Link) -> None:
        """Forget a connection that was lost, unless another task has replaced it already."""
        async with self._opening:
            if self._link is link:
                await self._end()

    async def _end(self) -> None:
        link, self._link = self._link, None
        if link is None or link.keeper is None:
            return
        link.release.set()
        with anyio.move_on_after(_LEAVE_TIMEOUT_S, shield=True):
            await asyncio.wait([link.keeper])
        if not link.keeper.done():
            link.keeper.cancel()


class _NeverRunError(Exception):
    """The call did not reach the server, or was refused unread; it may be sent again."""


def load_mcp() -> None:
    """Import the SDK now rather than with the first call; it takes a second of CPU."""
    import mcp.client.streamable_http  # noqa: F401


def _lift_event_limit() -> None:
    """Let an event be longer than a MiB, as two cameras of 512 x 512 pixels are.

    `streamable_http_client` has a parameter for it, `sse_client` has none and would end.
    """
    from mcp.client import sse

    opened = vars(sse)["sse_within_origin"]
    if not isinstance(opened, partial):
        vars(sse)["sse_within_origin"] = partial(opened, max_event_size=None)


def _closed(error: MCPError) -> bool:
    from mcp.types import CONNECTION_CLOSED

    return error.code == CONNECTION_CLOSED


def _translated(tool: str, error: MCPError, attempt: Attempt) -> McpCallError:
    from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR

    if attempt.lost or _closed(error):
        return McpCallError(
            CallFailure.CONNECTION, f"{tool}: connection lost ({attempt.lost or error})"
        )
    failures = {
        INVALID_PARAMS: CallFailure.REFUSED,
        METHOD_NOT_FOUND: CallFailure.REFUSED,
        PARSE_ERROR: CallFailure.PROTOCOL,
    }
    return McpCallError(failures.get(error.code, CallFailure.TOOL), f"{tool}: {error}")


def _lost() -> tuple[type[Exception], ...]:
    import httpx2

    return (
        httpx2.HTTPError,
        anyio.ClosedResourceError,
        anyio.BrokenResourceError,
        anyio.EndOfStream,
    )


def _connect_failures() -> tuple[type[Exception], ...]:
    import httpx2
    from mcp import MCPError

    # The last two: an answer that is no MCP, and versions that do not meet.
    return (*_lost(), MCPError, OSError, httpx2.InvalidURL, ValueError, RuntimeError)


def _first(group: BaseException) -> str:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return f"{type(group).__name__}: {group}"


def _object_of(tool: str, result: CallToolResult) -> JsonObject:
    """The JSON object in a tool result: structured content, else the first text block."""
    from mcp.types import TextContent

    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if result.is_error:
        text = " ".join(texts) or "failed"
        # How servers of the SDK, 1.x and 2.x, begin when nothing was run.
        unfit = "validation error" in text[:200].lower() or text.startswith("Unknown tool")
        raise McpCallError(CallFailure.REFUSED if unfit else CallFailure.TOOL, f"{tool}: {text}")
    structured = result.structured_content
    # A tool that returns text has it wrapped as `result` by some servers.
    if isinstance(structured, dict) and set(structured) != {"result"}:
        return _finite(tool, structured)
    for text in texts:
        with contextlib.suppress(ValueError):
            value = parse_json(text)
            if isinstance(value, dict):
                return value
    if isinstance(structured, dict):
        return _finite(tool, structured)
    raise McpCallError(CallFailure.PROTOCOL, f"{tool}: the answer holds no JSON object")


def _finite(tool: str, structured: JsonObject) -> JsonObject:
    """What `parse_json` refuses in a text must not come in as structured content either."""
    try:
        check_json(structured)
    except ValueError as error:
        raise McpCallError(CallFailure.PROTOCOL, f"{tool}: {error}") from error
    return structured
