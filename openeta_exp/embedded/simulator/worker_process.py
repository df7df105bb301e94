"""The server's end of one environment process: start it, ask it, end it for certain."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import ValidationError

from openeta_exp.embedded.simulator.channel import LENGTHS, Answer, Request, pack
from openeta_exp.embedded.simulator.gl import Gl, environment_with
from openeta_exp.errors import SimulatorError

logger = logging.getLogger(__name__)

_MODULE = "openeta_exp.embedded.simulator.worker"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a process answered."""

    answer: Answer
    body: bytes


class WorkerLost(SimulatorError):  # noqa: N818 - the fact, not the category
    """The process died or had to be ended; its environment is gone."""

    default_code = "simulator_worker_lost"


class WorkerHung(WorkerLost):
    """The process did not answer in time and was ended."""

    default_code = "simulator_worker_hung"


class WorkerProcess:
    """One process, asked by one caller at a time.

    A call that was sent is always waited for, even if its caller is cancelled, so that replies
    cannot be taken for answers to later questions.
    """

    def __init__(
        self, process: anyio.abc.Process, stream: anyio.abc.SocketStream, *, name: str
    ) -> None:
        self._process = process
        self._stream = stream
        self._receive = BufferedByteReceiveStream(stream)
        self._turn = anyio.Lock()
        self._lost = False
        self.name = name
        self.affinity = ""
        """What the process has built; see `EnvId.affinity`."""
        self.family = ""
        """What it has imported; see `EnvId.family`."""

    @classmethod
    async def start(cls, gl: Gl, *, name: str) -> WorkerProcess:
        """Raises: WorkerLost: If no process can be started."""
        ours, theirs = socket.socketpair()
        try:
            process = await anyio.open_process(
                _command(theirs.fileno(), gl),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None,
                pass_fds=(theirs.fileno(),),
                env=environment_with(gl),
            )
        except OSError as error:
            ours.close()
            raise WorkerLost(f"no environment process could be started: {error}") from error
        finally:
            theirs.close()
        stream = await anyio.abc.SocketStream.from_socket(ours)
        return cls(process, stream, name=name)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._lost and self._process.returncode is None

    async def call(self, request: Request, *, timeout_s: float) -> Reply:
        """Ask and wait.

        Raises:
            WorkerHung: No answer in time; the process was ended.
            WorkerLost: The process died.
        """
        async with self._turn:
            if not self.alive:
                raise WorkerLost("the environment process is gone", tool=request.kind)
            with anyio.CancelScope(shield=True):
                return await self._exchange(request, timeout_s=timeout_s)
        raise AssertionError("a shielded scope is never left by cancellation")

    async def end(self) -> None:
        """Kill and reap. Idempotent; a call in flight fails with `WorkerLost`."""
        self._lost = True
        with anyio.CancelScope(shield=True):
            if self._process.returncode is None:
                try:
                    self._process.kill()
                except ProcessLookupError:
                    logger.debug("%s was already gone", self.name)
            await self._process.wait()
            await self._stream.aclose()

    async def _exchange(self, request: Request, *, timeout_s: float) -> Reply:
        try:
            with anyio.fail_after(timeout_s):
                await self._stream.send(pack(request))
                lengths = await self._receive.receive_exactly(LENGTHS.size)
                header_length, body_length = LENGTHS.unpack(lengths)
                header = await self._receive.receive_exactly(header_length)
                body = await self._receive.receive_exactly(body_length) if body_length else b""
            answer = Answer.from_json(header)
        except TimeoutError as error:
            await self.end()
            raise WorkerHung(
                f"no answer to {request.kind!r} in {timeout_s:g} s; the process was replaced",
                tool=request.kind,
                outcome_unknown=True,
            ) from error
        except (
            anyio.EndOfStream,
            anyio.IncompleteRead,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
            ValidationError,
        ) as error:
            await self.end()
            raise WorkerLost(
                f"the environment process died during {request.kind!r} "
                f"(exit status {self._process.returncode})",
                tool=request.kind,
                outcome_unknown=True,
            ) from error
        if answer.last_words is not None:
            await self.end()
            raise WorkerLost(
                f"the environment process crashed during {request.kind!r}: {answer.last_words}",
                tool=request.kind,
                outcome_unknown=True,
            )
        return Reply(answer, body)


def _command(fd: int, gl: Gl) -> Sequence[str]:
    return [
        sys.executable,
        "-m",
        _MODULE,
        "--fd",
        str(fd),
        "--parent",
        str(os.getpid()),
        "--gl",
        gl.value,
    ]
