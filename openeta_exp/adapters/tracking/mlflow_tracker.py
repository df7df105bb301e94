"""Hands facts to the projector, a process that shows them in MLflow."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

import openeta_exp
from openeta_exp.adapters.tracking.messages import (
    Fact,
    Farewell,
    FromProjector,
    MlflowTarget,
    Shown,
    Trouble,
)
from openeta_exp.domain.event import Event

logger = logging.getLogger(__name__)

_REPORT: TypeAdapter[FromProjector] = TypeAdapter(FromProjector)
_FIXED = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
}
_DEFAULTS = {
    # A large text's memory goes back at once; glibc would keep more with each one it has seen.
    "MALLOC_TRIM_THRESHOLD_": "131072",
    # MLflow itself would try for minutes; the projector tries again on its own.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}


class MlflowTracker:
    """Shows a journal in MLflow: one run per batch and arm.

    The projector is told facts and never asked for anything while the run goes on. It is a
    process, started at once because importing MLflow takes seconds, so that MLflow may be as slow
    as it likes and can be given up at any moment. If the run is killed, it ends by itself.

    Runs are found again by tag, and each run knows up to which fact it has been shown. So to go
    on with a journal, or to rebuild what is missing, publish it from its first fact.
    """

    def __init__(
        self,
        target: MlflowTarget,
        *,
        log: Path,
        program: str = "openeta_exp.adapters.tracking.projector",
    ) -> None:
        """
        Args:
            log: File for what MLflow has to say, tracebacks included.
            program: Module to run as the projector.
        """
        self._target = target
        self._log = log
        self._program = program
        # Lines: a whole journal may wait here for MLflow's import, and takes an eighth as text.
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._given_up = False
        self._guard = threading.Lock()
        self._last_published = 0
        self._closed = False
        self._warned = False
        self._place: str | None = None
        self._compare: str | None = None
        self._shown = 0
        self._feeder = threading.Thread(target=self._feed, daemon=True, name="mlflow-feeder")
        self._feeder.start()

    def publish(self, events: Iterable[tuple[int, Event]]) -> None:
        if self._closed:
            raise ValueError("the tracker is closed")
        for seq, event in events:
            if seq > self._last_published:
                self._last_published = seq
                self._lines.put(_line(Fact.model_construct(seq=seq, event=event)))

    def close(self, *, timeout_s: float) -> str | None:
        if self._closed:
            return self._place
        self._closed = True
        self._lines.put(_FAREWELL)
        # Without a fact there is nothing to wait for.
        self._feeder.join(timeout_s if self._last_published else 0)
        self._give_up()
        if self._shown < self._last_published:
            self._warn(
                "MLflow has not taken everything that was to be shown "
                f"(waited {timeout_s:g} s); nothing is lost, `command=track` shows the rest"
            )
            return None
        return self._place

    @property
    def compare_link(self) -> str | None:
        return self._compare

    def _feed(self) -> None:
        """Start the projector, pass facts on, and stay until it has ended."""
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", self._program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=_environment(),
                    # Ctrl-C is for the run, which then says farewell.
                    start_new_session=True,
                )
        except OSError as error:
            self._warn(f"MLflow's projector cannot be started: {error}")
            return
        with self._guard:
            self._process = process
            if self._given_up:
                process.kill()
        listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        listener.start()
        self._pass_on(process)
        code = process.wait()
        listener.join()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None, "opened as a pipe"
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        if code > 0:
            self._warn(f"MLflow's projector ended with exit code {code}; see {self._log}")

    def _pass_on(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None, "opened as a pipe"
        # A projector that is gone has told why, and takes nothing.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(_line(self._target))
            process.stdin.flush()
            while True:
                line = self._lines.get()
                process.stdin.write(line)
                if line is _FAREWELL:
                    process.stdin.flush()
                    # Not closed: an end of the stream would tell the projector that we are gone.
                    return
                if self._lines.empty():
                    process.stdin.flush()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None, "opened as a pipe"
        for line in process.stdout:
            try:
                report = _REPORT.validate_json(line)
            except ValidationError:
                logger.debug("not a report: %r", line)
                continue
            match report:
                case Shown(seq=seq, place=place, compare=compare):
                    self._shown, self._place, self._compare = seq, place, compare
                case Trouble(message=message):
                    self._warn(
                        f"MLflow does not take what is to be shown ({message}); still trying"
                    )

    def _give_up(self) -> None:
        with self._guard:
            self._given_up = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("%s", message)


def _line(message: Fact | Farewell | MlflowTarget) -> bytes:
    return message.to_json().encode("utf-8") + b"\n"


_FAREWELL = _line(Farewell())


def _environment() -> dict[str, str]:
    # The package may run from a checkout, which only the directory it was started in makes known.
    root = str(Path(openeta_exp.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return {**_DEFAULTS, **os.environ, **_FIXED, "PYTHONPATH": path}
