"""One worker process: started, asked, and ended for certain."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

import openeta_exp
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import parse_json
from openeta_exp.errors import CatalogError, SimulatorError

_HEADER = struct.Struct(">I")
_CLOSE_TIMEOUT_S = 15.0
_SHOWN_STDERR = 2000
_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from openeta_exp.catalog.host.serving import main; main()"
)


class WorkerProcess:
    """A process of its own for adapter, simulator and policy; one request at a time.

    Args:
        interpreter: Python to run; the adapter's packages must be installed there.
        search_path: Directories the process imports from first.
    """

    def __init__(self, *, interpreter: str | None, search_path: Sequence[str]) -> None:
        self._interpreter = interpreter
        self._search_path = list(search_path)
        self._process: anyio.abc.Process | None = None
        self._replies: BufferedByteReceiveStream | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    async def request(self, message: JsonObject, *, timeout_s: float) -> JsonObject:
        """Send one request and wait for its reply; a process that fails to give it is killed.

        Raises:
            SimulatorError: The process ended or did not answer in time.
            CatalogError: The interpreter cannot be started.
        """
        content = json.dumps(message, allow_nan=False).encode()
        try:
            if self._process is None:
                await self._start()
            with anyio.fail_after(timeout_s):
                return await self._exchange(content)
        except TimeoutError as error:
            await self.kill()
            raise SimulatorError(
                f"the worker process gave no answer in {timeout_s:g} s and was killed",
                code="adapter_timeout",
            ) from error
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.IncompleteRead) as error:
            said = await self._last_words()
            raise SimulatorError(
                f"the worker process ended in the middle of a request: {said}",
                code="adapter_process_died",
            ) from error
        except anyio.get_cancelled_exc_class():
            # A request that is under way cannot be taken back, and its reply must not be mistaken
            # for the next one.
            with anyio.CancelScope(shield=True):
                await self.kill()
            raise

    async def _exchange(self, content: bytes) -> JsonObject:
        process, replies = self._process, self._replies
        assert process is not None
        assert process.stdin is not None
        assert replies is not None
        await process.stdin.send(_HEADER.pack(len(content)) + content)
        (length,) = _HEADER.unpack(await replies.receive_exactly(_HEADER.size))
        reply = parse_json(await replies.receive_exactly(length))
        assert isinstance(reply, dict)
        return reply

    async def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="openeta-worker-")
        folder = Path(self._folder.name)
        # Another interpreter must see this package, but none of the packages next to it.
        (folder / "openeta_exp").symlink_to(Path(openeta_exp.__file__).parent)
        environment = dict(os.environ)
        # One worker per core is the caller's choice; a thread pool in each would undo it.
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment.setdefault(name, "1")
        command = [
            self._interpreter or sys.executable,
            "-c",
            _START,
            str(folder),
            json.dumps(self._search_path),
        ]
        with (folder / "stderr.log").open("wb") as stderr:
            try:
                self._process = await anyio.open_process(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=environment,
                    # Ctrl-C is for this process, which then closes its workers in order.
                    start_new_session=True,
                )
            except OSError as error:
                raise CatalogError(f"{command[0]} cannot be started: {error}") from error
        assert self._process.stdout is not None
        self._replies = BufferedByteReceiveStream(self._process.stdout)

    async def _last_words(self) -> str:
        """The end of what the process wrote, and how it ended."""
        process, folder = self._process, self._folder
        assert process is not None
        assert folder is not None
        with anyio.move_on_after(1.0):
            await process.wait()
        text = (Path(folder.name) / "stderr.log").read_bytes()[-_SHOWN_STDERR:]
        status = process.returncode
        await self.kill()
        return f"exit status {status}; {text.decode(errors='replace').strip() or 'it said nothing'}"

    async def kill(self) -> None:
        """End the process at once."""
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
        await self._forget()

    async def aclose(self) -> None:
        """Let the process clean up and end; kill it if it takes too long."""
        process = self._process
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            if process.stdin is not None:
                await process.stdin.aclose()
            with anyio.move_on_after(_CLOSE_TIMEOUT_S):
                await process.wait()
            await self.kill()

    async def _forget(self) -> None:
        process, self._process, self._replies = self._process, None, None
        if process is not None:
            with anyio.CancelScope(shield=True):
                await process.aclose()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
