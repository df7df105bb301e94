"""What a journal says so far, for a person or for a program (`command=inspect`)."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, assert_never

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import Arm
from openeta_exp.domain.history import BatchHistory, History
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.record import Record
from openeta_exp.domain.summary import (
    BatchSummary,
    EpisodeStatus,
    in_manifest_order,
    status_of,
    summarise,
)
from openeta_exp.ports.store import Journal
from openeta_exp.reporting.live_view import counted
from openeta_exp.reporting.summary_view import percent, summary_view
from openeta_exp.statistics.intervals import wilson

SCHEMA_VERSION: Literal["openeta.command_inspect.v1"] = "openeta.command_inspect.v1"
_SHOWN = 50
"""Episodes per batch that get a row; what went wrong goes first."""


class BatchState(StrEnum):
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    OPEN = "running or killed"
    """A journal cannot tell a batch that runs from one that was killed."""


class InspectedBatch(Record):
    """One batch with everything that is known of it."""

    batch_id: str
    experiment_id: str
    generation: int
    phase: str
    arm: Arm
    arm_digest: Digest
    state: BatchState
    runs: int
    """How often it was started; more than once if it was resumed."""
    started_at_s: float
    summary: BatchSummary
    outcomes: tuple[EpisodeOutcome, ...]
    """In manifest order, without those that have not ended."""
    unfinished_episode_ids: tuple[str, ...]
    running_episode_ids: tuple[str, ...]
    """Begun and not ended. If nothing writes the journal, these attempts are lost."""


class Inspection(Record):
    """An experiment's journal at one moment."""

    schema_version: Literal["openeta.command_inspect.v1"] = SCHEMA_VERSION
    ok: bool = True
    journal: str
    event_count: int
    batches: tuple[InspectedBatch, ...]


def inspect(journal: Journal, *, source: str) -> Inspection:
    """Read a journal from its first fact to its last.

    Raises:
        StoreError: It cannot be read.
    """
    history = History()
    last = 0
    for seq, event in journal.events():
        history.add(event)
        last = seq
    batches = tuple(_inspected(batch) for batch in history.batches)
    return Inspection(journal=source, event_count=last, batches=batches)


def inspect_view(inspection: Inspection) -> RenderableType:
    """A table of batches, then each batch by itself."""
    facts = counted(inspection.event_count, "fact")
    title = Text(f"{inspection.journal}: {facts}", no_wrap=True, overflow="ignore")
    if not inspection.batches:
        return Group(title, Text("no batch has begun"))
    parts: list[RenderableType] = [title, _batch_table(inspection.batches)]
    for batch in inspection.batches:
        parts += [summary_view(batch, batch.summary, places=None), *_episodes(batch)]
    return Group(*parts)


def _inspected(batch: BatchHistory) -> InspectedBatch:
    started, ended = batch.started, batch.ended
    state = BatchState.OPEN
    if ended is not None:
        state = BatchState.INTERRUPTED if ended.interrupted else BatchState.FINISHED
    outcomes = list(batch.outcomes.values())
    rows = in_manifest_order(started.manifest, outcomes)
    return InspectedBatch(
        batch_id=started.batch_id,
        experiment_id=started.experiment_id,
        generation=started.generation,
        phase=started.phase,
        arm=started.arm,
        arm_digest=started.arm.content_digest,
        state=state,
        runs=batch.runs,
        started_at_s=started.at_s,
        summary=summarise(
            started.manifest,
            outcomes,
            interval=wilson,
            duration_s=batch.duration_s,
            interrupted=state is BatchState.INTERRUPTED,
            provider=None if ended is None else ended.provider,
        ),
        outcomes=tuple(outcome for _, outcome in rows if outcome is not None),
        unfinished_episode_ids=tuple(spec.episode_id for spec, found in rows if found is None),
        running_episode_ids=tuple(batch.running),
    )


def _batch_table(batches: tuple[InspectedBatch, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in ("batch", "arm", "state", "begun (UTC)"):
        table.add_column(name, overflow="fold")
    for name in ("runs", "ended", "solved"):
        table.add_column(name, justify="right")
    table.add_column("rate over all")
    for batch in batches:
        tally = batch.summary.tally
        table.add_row(
            Text(batch.batch_id),
            Text(f"{batch.arm.label} {batch.arm_digest[:8]}"),
            batch.state,
            f"{datetime.fromtimestamp(batch.started_at_s, UTC):%Y-%m-%d %H:%M}",
            str(batch.runs),
            f"{tally.episode_count - tally.unfinished_count}/{tally.episode_count}",
            str(tally.success_count),
            percent(batch.summary.success_over_all),
        )
    return table


def _episodes(batch: InspectedBatch) -> list[RenderableType]:
    ranked = sorted(batch.outcomes, key=lambda each: status_of(each) is EpisodeStatus.SUCCESS)
    shown = set(map(id, ranked[:_SHOWN]))
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("episode", overflow="fold")
    table.add_column("outcome", overflow="fold")
    for name in ("turns", "seconds", "tokens"):
        table.add_column(name, justify="right")
    table.add_column("session", overflow="fold")
    for outcome in batch.outcomes:
        if id(outcome) in shown:
            table.add_row(
                Text(outcome.episode_id),
                Text(_verdict(outcome)),
                str(outcome.usage.turns),
                f"{outcome.usage.duration_s:.1f}",
                f"{outcome.usage.tokens.total_tokens:,}",
                Text(outcome.session_id),
            )
    parts: list[RenderableType] = [table] if batch.outcomes else []
    if len(batch.outcomes) > _SHOWN:
        rest = counted(len(batch.outcomes) - _SHOWN, "more episode")
        parts.append(Text(f"{rest} in the JSON form and in the result file", style="dim"))
    parts += [
        Text(f"{name}: {_names(ids)}")
        for name, ids in {
            "begun and not ended": batch.running_episode_ids,
            "without an outcome": batch.unfinished_episode_ids,
        }.items()
        if ids
    ]
    return parts


def _verdict(outcome: EpisodeOutcome) -> str:
    match outcome:
        case EpisodeFailure(failure_class=kind, code=code):
            return f"broken ({kind}: {code})"
        case EpisodeResult():
            match status_of(outcome):
                case EpisodeStatus.SUCCESS:
                    return "solved"
                case EpisodeStatus.NEED_HUMAN:
                    return "waits for a person"
                case EpisodeStatus.FAIL:
                    return f"not solved ({outcome.failure_class}: {outcome.stop_reason})"
        case _:
            assert_never(outcome)


def _names(ids: tuple[str, ...]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + more
