"""Python in a Monty worker: an interpreter of its own in a process of its own.

The interpreter has no socket, no process, no environment and no file but those of the one folder
it is given, because it was never built with any; a worker that crashes is replaced.

No object of a run reaches this process, only text. Objects can share parts so that what takes a
kilobyte there takes years to hash or to write here, and some cannot be made here at all. So the
worker writes the value down, within the run's limits, and only the text is read.
"""

from __future__ import annotations

import ast
import json
import sys
import warnings
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
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

from openeta_exp.domain.record import check_json
from openeta_exp.errors import StoreError
from openeta_exp.ports.sandbox import SandboxLimits, SandboxRun

VIRTUAL_ROOT = "/sandbox"
MAX_WRITTEN_BYTES = 16 * 1024 * 1024
"""Of one run."""
_GRACE_S = 5.0
_VALUE = "_value_of_the_last_expression"
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
        program = _Program.of(source)
        written = "None"
        try:
            with MountDir(
                host_path=folder,
                virtual_path=VIRTUAL_ROOT,
                mode="read-write",
                write_bytes_limit=MAX_WRITTEN_BYTES,
            ) as mount:
                with anyio.fail_after(limits.duration_s + _GRACE_S):
                    async with pool.checkout(limits=_limits(limits)) as session:
                        await session.feed_run(
                            program.text,
                            inputs=dict(inputs),
                            print_callback=printed,
                            mount=mount,
                            cwd=VIRTUAL_ROOT,
                        )
                        if program.keeps_value:
                            written = await session.feed_run(
                                _writing(limits), print_callback=printed, mount=mount
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
        if program.unread is not None:
            return _stopped("python_error", program.unread, printed)
        return _finished(written, printed, limits)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """Source that keeps the value of its last expression in the worker.

    Attributes:
        text: Its own value is None, whatever is in it.
        keeps_value: It ends with an expression; its value is then called `_VALUE`.
        unread: Why nobody knows whether it does: the worker reads newer Python than this process.
    """

    text: str
    keeps_value: bool = False
    unread: str | None = None

    @classmethod
    def of(cls, source: str) -> _Program:
        text = source.replace("\r\n", "\n").replace("\r", "\n")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                statements = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return cls(text=f"{text}\nNone", unread=_unread(error))
        if not statements or not isinstance(statements[-1], ast.Expr):
            return cls(text=f"{text}\nNone")
        last = statements[-1]
        lines = text.split("\n")
        # Python counts columns in bytes. What may be a statement may also be assigned.
        line = lines[last.lineno - 1].encode("utf-8")
        before, after = line[: last.col_offset], line[last.col_offset :]
        lines[last.lineno - 1] = f"{before.decode('utf-8')}{_VALUE} = {after.decode('utf-8')}"
        return cls(text="\n".join([*lines, "None"]), keeps_value=True)


def _unread(error: Exception) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        "it ran, but the value of its last expression is not known; "
        f"write it for Python {version}: {str(error) or 'nested too deeply'}"
    )


def _writing(limits: SandboxLimits) -> str:
    """Writes the value down, to one character more than is allowed.

    It uses no name that the run could have given another meaning, and can only come to a text.
    """
    return f'f"{{{_VALUE}!r:.{limits.output_characters + 1}}}"'


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


def _finished(written: str, printed: _Printed, limits: SandboxLimits) -> SandboxRun:
    value = _read(written)
    if max(len(written), len(json.dumps(value))) > limits.output_characters:
        return _stopped(
            "sandbox_output",
            f"the value has more than {limits.output_characters} characters",
            printed,
        )
    return SandboxRun(value=value, printed=printed.text)


def _read(written: str) -> JsonValue:
    """A Python literal as JSON; what JSON has no form for stays the text it is written as."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            literal = ast.literal_eval(written)
        text = json.dumps(literal, default=repr, allow_nan=False)
        value: JsonValue = json.loads(text, object_pairs_hook=_every_key_once)
        check_json(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return written
    return value


def _every_key_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """`{1: 2, "1": 3}` has two keys in Python, and would have one."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("two keys are one in JSON")
    return dict(pairs)
