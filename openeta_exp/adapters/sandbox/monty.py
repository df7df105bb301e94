"""Python in a Monty worker: an interpreter of its own in a process of its own.

The interpreter has no socket, no process, no environment and no file but those of the one folder
it is given, because it was never built with any; a worker that crashes is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from pydantic import JsonValue
from pydantic_monty import (
    AsyncMonty,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MountDir,
    ResourceLimits,
)

from openeta_exp.errors import StoreError
from openeta_exp.ports.sandbox import SandboxLimits, SandboxRun

VIRTUAL_ROOT = "/sandbox"
MAX_WRITTEN_BYTES = 16 * 1024 * 1024
"""Of one run."""
_GRACE_S = 5.0
_LIMITS = ("disk write limit", "suspension limit")
_FORBIDDEN = ("is not supported in this environment", "No module named", "Permission denied")


class MontySandbox:
    """See `ports.sandbox.Sandbox`. The workers start with the first run."""

    def __init__(self, *, max_processes: int = 2) -> None:
        self._max_processes = max_processes
        self._pool: AsyncMonty | None = None
        self._stack = AsyncExitStack()
        self._starting = anyio.Lock()

    async def run(
        self, source: str, *, inputs: Mapping[str, JsonValue], folder: Path, limits: SandboxLimits
    ) -> SandboxRun:
        pool = await self._started()
        printed = _Printed(limits.output_characters)
        try:
            with MountDir(
                host_path=folder,
                virtual_path=VIRTUAL_ROOT,
                mode="read-write",
                write_bytes_limit=MAX_WRITTEN_BYTES,
            ) as mount:
                with anyio.fail_after(limits.duration_s + _GRACE_S):
                    async with pool.checkout(limits=_limits(limits)) as session:
                        value = await session.feed_run(
                            source,
                            inputs=dict(inputs),
                            print_callback=printed,
                            mount=mount,
                            cwd=VIRTUAL_ROOT,
                        )
        except MontyCrashedError as error:
            code = "sandbox_timeout" if error.timed_out else "sandbox_crashed"
            return _stopped(code, str(error), printed)
        except MontyRuntimeError as error:
            return _stopped(_code(error), str(error), printed)
        except MontyError as error:
            return _stopped("python_error", str(error), printed)
        except TimeoutError:
            return _stopped("sandbox_timeout", f"more than {limits.duration_s:g} s", printed)
        except OSError as error:
            raise StoreError(f"{folder}: cannot be opened: {error}") from error
        return _finished(value, printed, limits)

    async def aclose(self) -> None:
        self._pool = None
        await self._stack.aclose()

    async def _started(self) -> AsyncMonty:
        async with self._starting:
            if self._pool is None:
                self._pool = await self._stack.enter_async_context(
                    AsyncMonty(min_processes=0, max_processes=self._max_processes)
                )
            return self._pool


class _Printed:
    """Keeps the beginning of what is printed; a flood costs nothing but its own time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[str] = []
        self._left = limit

    def __call__(self, stream: str, text: str) -> None:
        del stream
        if self._left > 0:
            self._parts.append(text[: self._left])
        self._left -= len(text)

    @property
    def text(self) -> str:
        cut = f"\n[cut at {self._limit} characters]" if self._left < 0 else ""
        return "".join(self._parts) + cut


def _limits(limits: SandboxLimits) -> ResourceLimits:
    return ResourceLimits(
        max_feed_duration_secs=limits.duration_s,
        max_turn_duration_secs=limits.duration_s,
        max_total_sleep_secs=limits.duration_s,
        max_memory=limits.memory_bytes,
        max_recursion_depth=500,
    )


def _code(error: MontyRuntimeError) -> str:
    match error.exception():
        case TimeoutError():
            return "sandbox_timeout"
        case MemoryError():
            return "sandbox_memory"
        case _ if any(words in str(error) for words in _LIMITS):
            return "sandbox_limit"
        case _ if any(words in str(error) for words in _FORBIDDEN):
            return "sandbox_forbidden"
        case _:
            return "python_error"


def _stopped(code: str, message: str, printed: _Printed) -> SandboxRun:
    return SandboxRun(value=None, printed=printed.text, code=code, message=message[:2_000])


def _finished(value: object, printed: _Printed, limits: SandboxLimits) -> SandboxRun:
    """The value as JSON; what JSON has no form for becomes its text."""
    try:
        text = json.dumps(value, default=repr, allow_nan=False)
    except (ValueError, RecursionError, TypeError):
        text = json.dumps(repr(value)[: limits.output_characters])
    if len(text) > limits.output_characters:
        return _stopped(
            "sandbox_output",
            f"the value has {len(text)} characters, more than {limits.output_characters}",
            printed,
        )
    return SandboxRun(value=json.loads(text), printed=printed.text)
