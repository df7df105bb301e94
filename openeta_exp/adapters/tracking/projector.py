"""The projector: reads facts line by line and shows them in MLflow, in a process of its own.

Not a thread of the run: importing MLflow and making its tables takes seconds of pure Python, and
in the same interpreter those are seconds in which every episode waits its turn.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from pydantic import TypeAdapter

from openeta_exp.adapters.tracking.curves import Curves
from openeta_exp.adapters.tracking.lineage_projection import LineageProjection, Render
from openeta_exp.adapters.tracking.messages import (
    Farewell,
    FromProjector,
    MlflowTarget,
    Shown,
    ToProjector,
    Trouble,
)
from openeta_exp.adapters.tracking.policy_projection import PolicyProjection
from openeta_exp.adapters.tracking.run_view import (
    HIGH_WATER_TAG,
    SUMMARY_TAG,
    Point,
    identity_tags,
    opening_texts,
    run_name,
    run_params,
    run_tags,
    sum_up,
)
from openeta_exp.domain.event import BatchEnded, BatchStarted, EpisodeEnded, Event
from openeta_exp.domain.history import BatchHistory, History

if TYPE_CHECKING:
    from openeta_exp.adapters.tracking.mlflow_runs import MlflowRuns

logger = logging.getLogger(__name__)

_EVERY_S = 2.0
"""Facts are shown together, at most this often."""
_PATIENCE_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses between attempts while MLflow does not answer; the last one is repeated."""
_MESSAGE: TypeAdapter[ToProjector] = TypeAdapter(ToProjector)
_UNUSED = ("pandas", "pyarrow")
"""MLflow can do without them and, where they are installed, imports them for 95 MB and a second."""


@dataclass(slots=True)
class _Run:
    """A batch, what of it has not been shown yet, and up to which fact MLflow has it."""

    batch: BatchHistory
    curves: Curves
    points: list[tuple[int, Point]] = field(default_factory=list)
    opened: tuple[int, BatchStarted] | None = None
    seq: int = 0
    """The latest fact."""
    changed: int = 0
    """The latest fact that changes the summary."""
    changed_ms: int = 0
    """Unix time of it; later than of any before, whatever becomes of the clock, because MLflow
    takes the latest value of a metric for what is."""
    shown: int = -1
    """The latest fact that is in MLflow; -1 as long as that is not known."""
    summed: int = 0
    """The latest fact that is part of the summary in MLflow."""
    run_id: str = ""


class Projector:
    """Facts in, MLflow runs out. What could not be shown stays and is shown by the next attempt."""

    def __init__(self, connect: Callable[[], MlflowRuns], *, render: Render | None = None) -> None:
        """
        Args:
            render: Draws a comparison as a page; None draws none.
        """
        self._connect = connect
        self._runs: MlflowRuns | None = None
        self._history = History()
        self._lineages = LineageProjection(render)
        self._policies = PolicyProjection()
        self._by_batch: dict[int, _Run] = {}
        self._waiting: dict[int, _Run] = {}
        self._run_ids: dict[str, str] = {}
        self._seq = 0

    def add(self, seq: int, event: Event) -> None:
        """Take one fact; facts that come again are passed over."""
        if seq <= self._seq:
            return
        self._seq = seq
        batch = self._history.add(event)
        self._lineages.add(seq, event, batch)
        self._policies.add(seq, event)
        if batch is None:
            return
        run = self._by_batch.get(id(batch))
        if run is None:
            run = self._by_batch[id(batch)] = _Run(batch, Curves(batch))
        run.seq = seq
        self._waiting[id(batch)] = run
        match event:
            case BatchStarted():
                run.curves.begin()
                run.opened = (seq, event)
            case EpisodeEnded(outcome=outcome, at_s=at_s):
                run.points += ((seq, point) for point in run.curves.advance(outcome, at_s=at_s))
            case BatchEnded():
                pass
            case _:
                return  # Of no batch, or nothing that is shown.
        run.changed, run.changed_ms = seq, max(run.changed_ms + 1, int(event.at_s * 1000))

    def flush(self, *, last: bool = False) -> Shown | None:
        """Show everything that waits; None if nothing did.

        Args:
            last: No further fact will come, so batches that have no end are summed up as well.
                Before that it would be in vain: a summary is as large as its batch.

        Raises:
            MLFLOW_ERRORS: Some of it is still waiting.
        """
        if last:
            self._waiting |= {
                key: run for key, run in self._by_batch.items() if run.changed > run.summed
            }
        if not (self._waiting or self._lineages.waiting or self._policies.waiting):
            return None
        if self._runs is None:
            self._runs = self._connect()
        self._lineages.open(self._runs)
        place = ""
        for key, run in list(self._waiting.items()):
            self._show(run, self._runs, last=last)
            place = self._runs.place(run.run_id)
            self._run_ids[run.batch.started.batch_id] = run.run_id
            del self._waiting[key]
        self._lineages.show(self._runs, self._run_ids.get)
        self._policies.show(self._runs, self._run_ids.get)
        ours = self._policies.place(self._runs) or self._lineages.place(self._runs)
        return Shown(
            seq=self._seq,
            place=ours or place,
            compare=self._lineages.compare(self._runs, self._run_ids.get),
        )

    def _show(self, run: _Run, runs: MlflowRuns, *, last: bool) -> None:
        started = run.batch.started
        if run.shown < 0:
            run.run_id, tags = runs.find_or_create(
                identity_tags(run.batch),
                name=run_name(started),
                started_ms=int(run.batch.first_started_s * 1000),
            )
            run.shown = int(tags.get(HIGH_WATER_TAG, "0"))
            run.summed = int(tags.get(SUMMARY_TAG, "0"))
        if run.seq > run.shown:
            self._go_on(run, runs)
        # Also what was summed up before may have changed since: a person has answered.
        if run.changed > run.summed and (last or run.batch.ended is not None):
            self._sum_up(run, runs)
        run.points.clear()

    def _go_on(self, run: _Run, runs: MlflowRuns) -> None:
        started = run.batch.started
        if run.opened is not None and run.opened[0] > run.shown:
            runs.open(
                run.run_id,
                params=self._lineages.arm_params(started, runs) | run_params(started),
                tags=run_tags(run.batch) | self._lineages.arm_tags(started),
            )
            runs.attach(run.run_id, opening_texts(started))
        runs.plot(run.run_id, [point for seq, point in run.points if seq > run.shown])
        # Last: what was only half shown is shown again, and that changes nothing.
        runs.tag(run.run_id, {HIGH_WATER_TAG: str(run.seq)})
        run.shown = run.seq

    def _sum_up(self, run: _Run, runs: MlflowRuns) -> None:
        page = sum_up(
            run.batch,
            at_ms=run.changed_ms,
            stops_early=self._lineages.is_arm(run.batch.started.batch_id),
            failed=run.curves.failed,
        )
        runs.plot(run.run_id, page.points)
        runs.attach(run.run_id, page.texts)
        runs.tag(run.run_id, page.tags)
        ended = run.batch.ended
        if ended is not None:
            runs.end(run.run_id, interrupted=ended.interrupted, at_ms=int(ended.at_s * 1000))
        runs.tag(run.run_id, {SUMMARY_TAG: str(run.changed)})
        run.summed = run.changed


def main(render: Render | None = None) -> None:
    """Read the target and then facts from stdin; report on stdout; log on stderr.

    Args:
        render: Draws a comparison as a page; None draws none.
    """
    os.nice(5)
    for name in _UNUSED:
        # What is None there cannot be imported, as if it were not installed.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    reports = os.fdopen(os.dup(1), "wb", buffering=0)
    # Whatever a library prints must not end up between the reports.
    os.dup2(2, 1)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    target = MlflowTarget.from_json(sys.stdin.buffer.readline())
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, lines), daemon=True).start()

    def report(message: FromProjector) -> None:
        reports.write(message.to_json().encode("utf-8") + b"\n")

    serve(Projector(lambda: _connect(target), render=render), lines, report=report)
    logging.shutdown()
    # The reader waits for a run that has nothing more to say; Python would stumble over it.
    os._exit(0)


def serve(
    projector: Projector,
    lines: queue.SimpleQueue[bytes],
    *,
    report: Callable[[FromProjector], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show facts until the farewell, and try for ever: how long to wait decides the tracker.

    Args:
        lines: Facts and farewell as they were sent. Those that wait for a slow MLflow are many,
            and a parsed one takes eight times the memory.
    """
    # Here, and not above: the reader must already watch for the end of the run.
    from openeta_exp.adapters.tracking.mlflow_runs import MLFLOW_ERRORS

    failures = 0
    leaving = False
    while True:
        if not leaving:
            leaving = _take(projector, lines)
        try:
            shown = projector.flush(last=leaving)
        except MLFLOW_ERRORS as error:
            logger.warning("MLflow did not take what was to be shown", exc_info=True)
            report(Trouble(message=_one_line(error)))
            sleep(_PATIENCE_S[min(failures, len(_PATIENCE_S) - 1)])
            failures += 1
            continue
        failures = 0
        if shown is not None:
            report(shown)
        if leaving:
            return


def _take(projector: Projector, lines: queue.SimpleQueue[bytes]) -> bool:
    """Wait for a fact, then take what comes within a moment; True at the farewell."""
    line = lines.get()
    until_s = time.monotonic() + _EVERY_S
    while True:
        message = _MESSAGE.validate_json(line)
        if isinstance(message, Farewell):
            return True
        projector.add(message.seq, message.event)
        try:
            line = lines.get(timeout=max(0.0, until_s - time.monotonic()))
        except queue.Empty:
            return False


def _read(stream: BinaryIO, lines: queue.SimpleQueue[bytes]) -> None:
    for line in stream:
        lines.put(line)
    # The run is gone, killed or tired of waiting, and the journal has everything.
    os._exit(1)


def _connect(target: MlflowTarget) -> MlflowRuns:
    from openeta_exp.adapters.tracking.mlflow_runs import MlflowRuns

    return MlflowRuns(target)


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:300]


if __name__ == "__main__":
    main()
