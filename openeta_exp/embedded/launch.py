"""Starts the embedded host as a process of its own and ends it again, whatever happens."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import ValidationError

from openeta_exp.embedded.addresses import EmbeddedAddresses, HostOptions
from openeta_exp.errors import SimulatorError

START_TIMEOUT_S = 120.0
_GRACE_S = 10.0
_LONGEST_LINE = 65_536


@asynccontextmanager
async def embedded_host(options: HostOptions) -> AsyncIterator[EmbeddedAddresses]:
    """The host's addresses while it serves.

    It runs in a session of its own, so that Ctrl-C at the terminal reaches only this process,
    which then closes its environments in order.

    Raises:
        SimulatorError: It did not start; its own words are on standard error.
    """
    process = await anyio.open_process(
        [sys.executable, "-m", "openeta_exp.embedded.host"],
        stderr=None,
        start_new_session=True,
    )
    try:
        yield await _started(process, options)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _started(process: Process, options: HostOptions) -> EmbeddedAddresses:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with anyio.fail_after(START_TIMEOUT_S):
            await process.stdin.send(options.to_json().encode("utf-8") + b"\n")
            answers = BufferedByteReceiveStream(process.stdout)
            line = await answers.receive_until(b"\n", _LONGEST_LINE)
            return EmbeddedAddresses.from_json(line)
    except TimeoutError as error:
        raise SimulatorError(
            f"the embedded host did not start within {START_TIMEOUT_S:g} s",
            code="embedded_host_failed",
        ) from error
    except (anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError) as error:
        raise SimulatorError(
            "the embedded host ended before it served; see its message above",
            code="embedded_host_failed",
        ) from error
    except ValidationError as error:
        raise SimulatorError(
            "the embedded host did not answer with its addresses", code="embedded_host_failed"
        ) from error


async def _end(process: Process) -> None:
    """Close its standard input, which asks it to end; after a grace, end it."""
    if process.stdin is not None:
        await process.stdin.aclose()
    with anyio.move_on_after(_GRACE_S):
        await process.wait()
        return
    process.kill()
    await process.wait()
