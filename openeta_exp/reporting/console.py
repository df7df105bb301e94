"""The only module that prints: progress and problems to stderr, results to stdout."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console as RichConsole
from rich.console import RenderableType
from rich.live import Live
from rich.logging import RichHandler
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.domain.summary import BatchSummary, EpisodeStatus, status_of
from openeta_exp.errors import InfrastructureError, UserError
from openeta_exp.reporting.live_view import (
    BatchView,
    heading,
    outcome_line,
    scripted_stamp,
)
from openeta_exp.reporting.summary_view import Places, summary_view

_REFRESHES_PER_S = 2
_LINE_EACH = 200
"""Batches up to this size get a line per episode; larger ones, one per failure and per percent."""
_LINE_WIDTH = 110
"""Columns where there is no terminal to ask."""


class Console:
    """Says how it goes and what came of it.

    On a terminal a live display, elsewhere plain lines. A reader that goes away (`| head`) or a
    disk that is full ends the output, never the run.
    """

    def __init__(
        self,
        *,
        out: TextIO | None = None,
        err: TextIO | None = None,
        now_s: Callable[[], float] = time.monotonic,
        losses_are_news: bool = True,
    ) -> None:
        """
        Args:
            losses_are_news: A large batch gets a line for every episode that was not solved, and
                not only for those that broke.
        """
        self._out = _Writer(out or sys.stdout)
        self._err = _Writer(err or sys.stderr)
        self._now_s = now_s
        self._losses_are_news = losses_are_news
        self._view: BatchView | None = None
        self._live: Live | None = None

    def batch_started(
        self,
        started: BatchStarted,
        *,
        already_done: int,
        episodes: int | None = None,
        calls: Callable[[], ProviderMetrics | None] = lambda: None,
    ) -> None:
        """`calls` is asked each time the display is drawn."""
        self._view = view = BatchView(
            started,
            already_done=already_done,
            episodes=episodes,
            now_s=self._now_s,
            calls=calls,
        )
        if self._err.is_terminal and view.done < view.total:
            self._live = Live(
                view,
                console=self._err,
                refresh_per_second=_REFRESHES_PER_S,
                transient=True,
                redirect_stdout=False,
            )
            self._live.start()
            return
        self._err.say(
            f"{heading(started)}: {counted(view.total, 'episode')}, {started.concurrency} at once"
            + (f", {already_done} ended before" if already_done else "")
        )
        stamp = scripted_stamp(started.arm)
        if stamp is not None:
            self._err.say(stamp)

    def episode_started(self, spec: EpisodeSpec) -> None:
        if self._view is not None:
            self._view.start(spec)

    def episode_ended(self, outcome: EpisodeOutcome) -> None:
        view = self._view
        if view is None:
            return
        before = 100 * view.done // view.total
        view.end(outcome)
        failed = status_of(outcome) is EpisodeStatus.FAIL
        if view.total > _LINE_EACH and not self._losses_are_news:
            failed = isinstance(outcome, EpisodeFailure)
        if self._live is not None:
            if failed:
                self._err.say(outcome_line(outcome))
            return
        if failed or view.total <= _LINE_EACH or 100 * view.done // view.total > before:
            self._err.say(f"[{view.done}/{view.total}] {outcome_line(outcome)}")

    def batch_ended(self, *, interrupted: bool) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if interrupted:
            self._err.say("interrupted; environments are closed, finished episodes are kept")
        self._view = None

    def summary(
        self, started: BatchStarted, summary: BatchSummary, *, places: Places | None
    ) -> None:
        """The table a run ends with."""
        self._out.show(summary_view(started, summary, places=places))

    def problems(self, error: UserError) -> None:
        """What the user has to change, one sentence each."""
        for problem in error.problems:
            self._err.say(problem, style="red")

    def broke(self, error: InfrastructureError) -> None:
        """What broke outside of this program."""
        self._err.say(f"{error.code}: {error}", style="red")

    def show(self, renderable: RenderableType) -> None:
        """A table or a text that was asked for."""
        self._out.show(renderable)

    def text(self, text: str) -> None:
        """Text for a program to read: not wrapped, not coloured."""
        self._out.write(text)

    def note(self, text: str) -> None:
        """A remark beside the result."""
        self._err.say(text)

    def log_handler(self) -> logging.Handler:
        """For the root logger, so that log lines and the live display do not overwrite each
        other."""
        return RichHandler(
            console=self._err,
            show_path=False,
            markup=False,
            highlighter=None,
            rich_tracebacks=False,
        )


class _Writer(RichConsole):
    """A console that goes silent when nobody listens any more."""

    def __init__(self, stream: TextIO) -> None:
        terminal = stream.isatty()
        super().__init__(
            file=stream,
            width=None if terminal else _LINE_WIDTH,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def say(self, text: str, *, style: str = "") -> None:
        self.show(Text(text, style=style), soft_wrap=True)

    def show(self, renderable: RenderableType, *, soft_wrap: bool = False) -> None:
        try:
            self.print(renderable, soft_wrap=soft_wrap, crop=False)
        except OSError:
            self.on_broken_pipe()

    def write(self, text: str) -> None:
        try:
            self.file.write(text if text.endswith("\n") else f"{text}\n")
            self.file.flush()
        except OSError:
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Nobody reads any more: swallow the rest, also what the interpreter flushes at its end.

        Rich would end the program here, and the run with it.
        """
        self.quiet = True
        # A stream in memory has no descriptor and nothing to flush.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())
            os.close(nowhere)
