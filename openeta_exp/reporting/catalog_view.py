"""Whether a comparison would mean anything, as a table a person reads (`command=check`)."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.finding import CheckReport, CheckVerdict

_STYLE = {
    CheckVerdict.INVALID: "bold red",
    CheckVerdict.SUSPECT: "yellow",
    CheckVerdict.UNKNOWN: "dim",
    CheckVerdict.OK: "green",
}
_SENTENCE = {
    CheckVerdict.OK: "the comparison means something, as far as this can tell",
    CheckVerdict.UNKNOWN: "the checks could not tell",
    CheckVerdict.SUSPECT: "look at what is suspect before you trust the comparison",
    CheckVerdict.INVALID: "the comparison would mean nothing",
}


def check_view(
    report: CheckReport, *, warnings: Sequence[str] = (), problems_only: bool = False
) -> RenderableType:
    """Findings, worst first, and what they come to.

    Args:
        warnings: Of reading the catalog.
        problems_only: Leave out what is in order.
    """
    shown = report.problems if problems_only else report.findings
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("verdict")
    table.add_column("check")
    table.add_column("found", overflow="fold", ratio=1)
    for each in shown:
        table.add_row(
            Text(each.verdict, style=_STYLE[each.verdict]), each.check, Text(each.message)
        )
    parts: list[RenderableType] = [Text(f"warning: {each}", style="yellow") for each in warnings]
    if shown:
        parts.append(table)
    parts.append(check_sentence(report))
    return Group(*parts)


def check_sentence(report: CheckReport) -> Text:
    """The verdict in one line."""
    invalid, problems = len(report.invalid), len(report.problems)
    counts = f"{counted(len(report.findings), 'finding')}, {invalid} invalid, "
    counts += f"{problems - invalid} suspect"
    return Text(
        f"{report.verdict.upper()}: {_SENTENCE[report.verdict]} ({counts})",
        style=_STYLE[report.verdict],
    )
