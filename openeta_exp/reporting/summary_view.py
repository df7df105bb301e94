"""What a batch came to, as a table a person reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.domain.summary import BatchSummary, Rate
from openeta_exp.reporting.live_view import Named, by_class, clock, heading, scripted_stamp

HOW_TO_ANSWER = "`command=pending` shows each question and the command that answers it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a batch can be looked at afterwards.

    Attributes:
        tracking: Link to the tracking server's page, or the address of its store.
        ui_command: What to type to look at it, if it does not run already.
    """

    result: Path | None
    journal: Path
    tracking: str | None = None
    ui_command: str | None = None


def summary_view(batch: Named, summary: BatchSummary, *, places: Places | None) -> RenderableType:
    """Table by task, totals, rates, costs, places."""
    lines = [Text(""), Text(heading(batch), style="bold")]
    stamp = scripted_stamp(batch.arm)
    if stamp is not None:
        lines.append(Text(stamp, style="yellow"))
    rows: list[RenderableType] = [*lines, _task_table(summary)]
    rows += [Text(each) for each in _rates(summary)]
    rows += [Text(each, style="yellow") for each in _warnings(summary)]
    rows += [Text(each, style="dim") for each in _costs(summary)]
    if places is not None:
        rows += _places(places)
    return Group(*rows)


def percent(rate: Rate) -> str:
    """`80 % (49 to 94 %)`, or a dash if there was nothing to take a share of."""
    if rate.value is None:
        return "-"
    return f"{100 * rate.value:.0f} % ({100 * rate.low:.0f} to {100 * rate.high:.0f} %)"


def _task_table(summary: BatchSummary) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_footer=True, pad_edge=False)
    total = summary.tally
    table.add_column("task", footer="all", overflow="fold", ratio=1)
    table.add_column("episodes", footer=str(total.episode_count), justify="right")
    table.add_column("solved", footer=str(total.success_count), justify="right")
    table.add_column("not solved", footer=by_class(total.failures) or "-")
    table.add_column("turns", footer=f"{summary.turns.p50:.0f}", justify="right")
    table.add_column("tokens", footer=f"{summary.tokens.total_tokens:,}", justify="right")
    for each in summary.tasks:
        table.add_row(
            Text(each.task),
            str(each.tally.episode_count),
            str(each.tally.success_count),
            by_class(each.tally.failures) or "-",
            f"{each.turns.p50:.0f}",
            f"{each.total_tokens:,}",
        )
    return table


def _rates(summary: BatchSummary) -> list[str]:
    over_all, over_results = summary.success_over_all, summary.success_over_results
    lines = [
        f"solved {over_all.count} of {counted(over_all.of, 'episode')}: {percent(over_all)}",
        f"solved {over_results.count} of {over_results.of} with a verdict: "
        f"{percent(over_results)}   (in parentheses: 95 % Wilson intervals)",
    ]
    tally = summary.tally
    if tally.assisted_success_count:
        lines.append(
            f"of them {tally.autonomous_success_count} alone, "
            f"{tally.agent_assisted_success_count} with guidance, "
            f"{tally.human_assisted_success_count} with a person's help"
        )
    return lines


def _warnings(summary: BatchSummary) -> list[str]:
    tally, lines = summary.tally, []
    if summary.interrupted:
        lines.append("interrupted: the same command goes on where this one stopped")
    if tally.unfinished_count:
        lines.append(f"without an end: {counted(tally.unfinished_count, 'episode')}")
    if tally.need_human_count:
        lines.append(
            f"waiting for a person: {counted(tally.need_human_count, 'episode')}; {HOW_TO_ANSWER}"
        )
    if tally.infrastructure_count:
        lines.append(
            f"broken: {counted(tally.infrastructure_count, 'episode')}; "
            "the same command runs what broke again"
        )
    if summary.cleanup_failed_count:
        lines.append(f"not closed: {counted(summary.cleanup_failed_count, 'environment')}")
    return lines


def _costs(summary: BatchSummary) -> list[str]:
    spread = summary.episode_duration_s
    lines = [
        f"{clock(summary.duration_s)} in all; an episode {spread.p50:.1f} s in the middle, "
        f"{spread.p95:.1f} s at the 95th percentile"
    ]
    if summary.provider is not None:
        lines.append(_provider(summary.provider))
    return lines


def _provider(metrics: ProviderMetrics) -> str:
    return (
        f"{counted(metrics.request_count, 'model call')}, at most {metrics.max_active} of "
        f"{metrics.limit} at once; retries: {metrics.retries}, queue time-outs: "
        f"{metrics.queue_timeout_count}, longest wait: {metrics.max_queue_wait_s:.1f} s"
    )


def _places(places: Places) -> list[Text]:
    named = {
        "result": places.result,
        "journal": places.journal,
        "tracking": places.tracking,
        "look at it": places.ui_command,
    }
    # A path is there to be copied: it may be longer than the line, but is never cut or wrapped.
    return [
        Text(f"{name:<10}  {place}", no_wrap=True, overflow="ignore")
        for name, place in named.items()
        if place is not None
    ]
