"""One long-lived MCP connection, shared by every task that calls tools over it.

Connecting costs fifty times a call, so a connection is opened once, kept, and opened again only
after it was lost. The SDK's client must be entered and left by one task; that task is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import parse_json

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

_CONNECT_TIMEOUT_S = 30.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Transport(StrEnum):
    """How an MCP server is reached. `auto` is SSE for a URL that ends in `/sse`."""

    AUTO = "auto"
    STREAMABLE_HTTP = "streamable_http"
    SSE = "sse"


class CallFailure(StrEnum):
    """Why a call brought no answer."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    """The server could not be reached, or the connection was lost."""
    PROTOCOL = "protocol"
    """The server answered with something that is no tool result."""
    TOOL = "tool"
    """The server refused the call: unknown tool, wrong arguments, or an exception in the tool."""


class McpCallError(Exception):
    """A tool call that brought no answer. Adapters translate it into an error of their port."""

    def __init__(self, failure: CallFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class McpConnection:
    """Calls tools of one MCP server. May be used by any number of tasks at once."""

    def __init__(self, url: str, *, transport: Transport = Transport.AUTO) -> None:
        self.url = url
        self._transport = transport
        self._opening = anyio.Lock()
        self._client: Client | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._release: asyncio.Event | None = None

    async def call(self, tool: str, arguments: JsonObject, *, timeout_s: float) -> JsonObject:
        """Call a tool once and return the JSON object it answers with.

        Raises:
            McpCallError: No answer; the connection is opened again by the next call.
        """
        from mcp import MCPError

        client = await self._connected()
        try:
            with anyio.fail_after(timeout_s):
                result = await client.call_tool(tool, arguments)
        except TimeoutError as error:
            raise McpCallError(
                CallFailure.TIMEOUT, f"{tool} did not answer within {timeout_s:g} s"
            ) from error
        except MCPError as error:
            raise self._translated(tool, error) from error
        except _lost() as error:
            await self._drop(client)
            raise McpCallError(CallFailure.CONNECTION, f"{tool}: connection lost") from error
        return _object_of(tool, result)

    async def list_tools(self, *, timeout_s: float) -> frozenset[str]:
        """Names of the server's tools. Raises: McpCallError."""
        from mcp import MCPError

        client = await self._connected()
        try:
            with anyio.fail_after(timeout_s):
                listed = await client.list_tools()
        except TimeoutError as error:
            raise McpCallError(CallFailure.TIMEOUT, "list_tools did not answer in time") from error
        except MCPError as error:
            raise self._translated("list_tools", error) from error
        except _lost() as error:
            await self._drop(client)
            raise McpCallError(CallFailure.CONNECTION, "list_tools: connection lost") from error
        return frozenset(tool.name for tool in listed.tools)

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        async with self._opening:
            await self._end()

    def _translated(self, tool: str, error: Exception) -> McpCallError:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            self._client = None
            return McpCallError(CallFailure.CONNECTION, f"{tool}: connection lost ({error})")
        return McpCallError(CallFailure.TOOL, f"{tool}: {error}")

    async def _connected(self) -> Client:
        async with self._opening:
            if self._client is None:
                await self._end()
                self._client = await self._open()
            return self._client

    async def _open(self) -> Client:
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._release = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(opened, self._release))
        try:
            with anyio.fail_after(_CONNECT_TIMEOUT_S):
                return await opened
        except TimeoutError as error:
            await self._end()
            raise McpCallError(
                CallFailure.TIMEOUT, f"no MCP server answered in {_CONNECT_TIMEOUT_S:g} s"
            ) from error

    async def _keep(self, opened: asyncio.Future[Client], release: asyncio.Event) -> None:
        """Enter the client, hand it out, and leave it again, all in this one task."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                client = await stack.enter_async_context(self._new_client())
                if not opened.done():
                    opened.set_result(client)
                await release.wait()
        except* _connect_failures() as group:
            if not opened.done():
                opened.set_exception(
                    McpCallError(
                        CallFailure.CONNECTION,
                        f"no MCP server answers at {self.url} ({_first(group)})",
                    )
                )
        finally:
            self._client = None

    def _new_client(self) -> Client:
        import httpx2
        from mcp import Client
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        if self._transport is Transport.SSE or (
            self._transport is Transport.AUTO and urlsplit(self.url).path.endswith("/sse")
        ):
            return Client(sse_client(self.url, sse_read_timeout=86_400.0), cache=None)
        http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            # A proxy never stands between this machine and itself.
            trust_env=urlsplit(self.url).hostname not in _LOOPBACK,
        )
        return Client(
            streamable_http_client(self.url, http_client=http, max_sse_event_size=None),
            cache=None,
        )

    async def _drop(self, client: Client) -> None:
        """Forget a connection that was lost, unless another task has replaced it already."""
        async with self._opening:
            if self._client is client:
                await self._end()

    async def _end(self) -> None:
        keeper, self._keeper, self._client = self._keeper, None, None
        if keeper is None or self._release is None:
            return
        self._release.set()
        with anyio.move_on_after(5, shield=True):
            await asyncio.wait([keeper])
        if not keeper.done():
            keeper.cancel()


def load_mcp() -> None:
    """Import the SDK now rather than with the first call; it takes a second of CPU."""
    import mcp.client.streamable_http  # noqa: F401


def _lost() -> tuple[type[Exception], ...]:
    import httpx2

    return (
        httpx2.HTTPError,
        anyio.ClosedResourceError,
        anyio.BrokenResourceError,
        anyio.EndOfStream,
    )


def _connect_failures() -> tuple[type[Exception], ...]:
    from mcp import MCPError

    return (*_lost(), MCPError, OSError)


def _first(group: BaseException) -> str:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return f"{type(group).__name__}: {group}"


def _object_of(tool: str, result: CallToolResult) -> JsonObject:
    """The JSON object in a tool result: structured content, else the first text block."""
    from mcp.types import TextContent

    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if result.is_error:
        raise McpCallError(CallFailure.TOOL, f"{tool}: {' '.join(texts) or 'failed'}"[:2000])
    if isinstance(result.structured_content, dict):
        return result.structured_content
    for text in texts:
        with contextlib.suppress(ValueError):
            value = parse_json(text)
            if isinstance(value, dict):
                return value
    raise McpCallError(CallFailure.PROTOCOL, f"{tool}: the answer holds no JSON object")
