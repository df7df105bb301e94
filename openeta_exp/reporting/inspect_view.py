"""What a journal says so far, for a person or for a program (`command=inspect`)."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from functools import reduce
from operator import add
from typing import Literal, assert_never

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import Arm, ComparisonPlanned
from openeta_exp.domain.history import BatchHistory, History
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.lineage_story import Lineages
from openeta_exp.domain.record import Record
from openeta_exp.domain.summary import (
    BatchSummary,
    EpisodeStatus,
    Tally,
    in_manifest_order,
    status_of,
    summarise,
)
from openeta_exp.domain.token_tally import TokenTally
from openeta_exp.ports.store import Journal
from openeta_exp.reporting.inspect_lineage import (
    InspectedLineage,
    inspect_lineage,
    lineage_lines,
)
from openeta_exp.reporting.summary_view import percent, summary_view
from openeta_exp.statistics.clustered_intervals import clustered_wilson

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
    stops_early: bool = False
    """One side of a comparison, which ends when that is decided: counts are of what it ran."""
    started_at_s: float
    summary: BatchSummary
    """Over the whole manifest; of an arm that stops early, over what it ran."""
    outcomes: tuple[EpisodeOutcome, ...]
    """In manifest order, without those that have not ended."""
    unfinished_episode_ids: tuple[str, ...]
    running_episode_ids: tuple[str, ...]
    """Begun and not ended. If nothing writes the journal, these attempts are lost."""

    @property
    def short_id(self) -> str:
        """Unique within its experiment."""
        return self.batch_id.removeprefix(f"{self.experiment_id}-")

    def is_called(self, name: str) -> bool:
        return name in (self.batch_id, self.short_id)


class Inspection(Record):
    """An experiment's journal at one moment."""

    schema_version: Literal["openeta.command_inspect.v1"] = SCHEMA_VERSION
    ok: bool = True
    journal: str
    event_count: int
    tokens: int = 0
    """Of every attempt that has ended, and of authors and reviewers; what was cut short is in the
    account of `money` alone."""
    lineages: tuple[InspectedLineage, ...] = ()
    batches: tuple[InspectedBatch, ...]


def inspect(journal: Journal, *, source: str) -> Inspection:
    """Read a journal from its first fact to its last.

    Raises:
        StoreError: It cannot be read.
    """
    history, lineages, tally = History(), Lineages(), TokenTally()
    arms: set[str] = set()
    last = 0
    for seq, event in journal.events():
        history.add(event)
        lineages.add(event)
        tally.take(event)
        if isinstance(event, ComparisonPlanned):
            arms |= {event.baseline_batch_id, event.candidate_batch_id}
        last = seq
    return Inspection(
        journal=source,
        event_count=last,
        tokens=tally.total,
        lineages=tuple(inspect_lineage(story) for story in lineages.stories),
        batches=tuple(
            _inspected(batch, stops_early=batch.started.batch_id in arms)
            for batch in history.batches
        ),
    )


def inspect_view(inspection: Inspection, *, batch_id: str | None = None) -> RenderableType:
    """Generations, then a table of batches, then each batch by itself.

    Args:
        batch_id: The batch to show by itself; None is all of them, unless there are generations,
            which have too many.
    """
    facts = counted(inspection.event_count, "fact")
    if inspection.tokens:
        facts += (
            f", {counted(inspection.tokens, 'token')} in all attempts that have ended, without "
            "those that were cut short"
        )
    title = Text(f"{inspection.journal}: {facts}", no_wrap=True, overflow="ignore")
    if not inspection.batches:
        return Group(title, Text("no batch has begun"))
    chosen = [each for each in inspection.batches if batch_id is None or each.is_called(batch_id)]
    parts: list[RenderableType] = [title]
    if batch_id is None:
        for lineage in inspection.lineages:
            parts += lineage_lines(lineage)
        if inspection.lineages:
            parts.append(_arm_table(inspection.batches))
            hint = "the episodes of a batch: command.batch=NAME; everything: command.format=json"
            return Group(*parts, Text(hint, style="dim"))
        parts.append(_batch_table(inspection.batches))
    for batch in chosen:
        parts += [summary_view(batch, batch.summary, places=None), *_episodes(batch)]
    return Group(*parts)


def _inspected(batch: BatchHistory, *, stops_early: bool) -> InspectedBatch:
    started, ended = batch.started, batch.ended
    state = BatchState.OPEN
    if ended is not None:
        state = BatchState.INTERRUPTED if ended.interrupted else BatchState.FINISHED
    outcomes = list(batch.outcomes.values())
    manifest = started.manifest
    if stops_early and ended is not None:
        run = tuple(spec for spec in manifest.episodes if spec.content_digest in batch.outcomes)
        manifest = manifest.model_copy(update={"episodes": run or manifest.episodes})
    rows = in_manifest_order(manifest, outcomes)
    ends = batch.ends_that_count()
    calls = [end.provider for end in ends if end.provider is not None]
    return InspectedBatch(
        batch_id=started.batch_id,
        experiment_id=started.experiment_id,
        generation=started.generation,
        phase=started.phase,
        arm=started.arm,
        arm_digest=started.arm.content_digest,
        state=state,
        runs=batch.runs,
        stops_early=stops_early,
        started_at_s=started.at_s,
        summary=summarise(
            manifest,
            outcomes,
            interval=clustered_wilson,
            duration_s=sum(end.duration_s for end in ends),
            interrupted=state is BatchState.INTERRUPTED,
            provider=reduce(add, calls) if calls else None,
        ),
        outcomes=tuple(outcome for _, outcome in rows if outcome is not None),
        unfinished_episode_ids=tuple(spec.episode_id for spec, found in rows if found is None),
        running_episode_ids=tuple(batch.running),
    )


def _batch_table(batches: tuple[InspectedBatch, ...]) -> Table:
    table = _table_with_rates()
    for name in ("batch", "arm", "state", "begun (UTC)"):
        table.add_column(name, overflow="fold")
    for name in ("runs", "ended", "solved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rate", no_wrap=True)
    for batch in batches:
        tally = batch.summary.tally
        table.add_row(
            Text(batch.batch_id),
            Text(f"{batch.arm.label} {batch.arm_digest[:8]}"),
            batch.state,
            f"{datetime.fromtimestamp(batch.started_at_s, UTC):%Y-%m-%d %H:%M}",
            str(batch.runs),
            _ended(tally),
            str(tally.success_count),
            percent(batch.summary.success_over_results),
        )
    return table


def _arm_table(batches: tuple[InspectedBatch, ...]) -> Table:
    """A line per batch, for many of one experiment."""
    table = _table_with_rates()
    for name in ("batch", "arm", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("ended", "solved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rate", no_wrap=True)
    for batch in batches:
        tally = batch.summary.tally
        table.add_row(
            Text(batch.short_id),
            batch.arm_digest[:8],
            batch.state if batch.runs == 1 else f"{batch.state}, run {batch.runs}",
            _ended(tally),
            str(tally.success_count),
            percent(batch.summary.success_over_results),
        )
    return table


def _table_with_rates() -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        pad_edge=False,
        caption="rate: solved of those with a verdict, and its 95 % Wilson interval",
        caption_justify="left",
    )


def _ended(tally: Tally) -> str:
    ended = f"{tally.episode_count - tally.unfinished_count}/{tally.episode_count}"
    broken = tally.infrastructure_count
    return f"{ended}, {broken} broken" if broken else ended


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
