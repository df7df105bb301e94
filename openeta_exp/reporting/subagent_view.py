"""What an evaluation of sub-agents found, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.subagent_eval import SubagentCase, SubagentReport

_SHOWN = 20


def subagent_view(report: SubagentReport, *, problems: Sequence[str]) -> RenderableType:
    """Roles, dangers with their bounds, and the first cases that went wrong."""
    parts: list[RenderableType] = []
    if report.scripted:
        parts.append(Text("scripted models (says nothing about a real model)"))
    parts.append(_roles(report))
    failed = [result for result in report.results if not result.passed]
    if failed:
        table = Table(title="not as expected", title_justify="left")
        for column in ("case", "expected", "got", "said"):
            table.add_column(column, overflow="fold")
        for result in failed[:_SHOWN]:
            danger = " (dangerous)" if result.dangerous else ""
            table.add_row(
                result.case_id,
                result.expected_label.value,
                f"{result.actual_label.value}{danger}",
                (result.error or result.output)[:160],
            )
        parts.append(table)
        if len(failed) > _SHOWN:
            parts.append(Text(f"and {len(failed) - _SHOWN} more; format=json lists them all"))
    parts.append(Text("; ".join(problems) if problems else "nothing dangerous, nothing unexpected"))
    return Group(*parts)


def _roles(report: SubagentReport) -> Table:
    table = Table(title="sub-agents", title_justify="left")
    for column in ("role", "passed", "errors", "dangerous", "of cases", "true share, 95 % bound"):
        table.add_column(column, justify="left" if column == "role" else "right")
    for role, each in report.metrics.by_role.items():
        table.add_row(
            role.value,
            f"{each.passed} of {each.total}",
            str(each.errors),
            str(each.danger.dangerous),
            str(each.danger.cases),
            f"at most {each.danger.upper_95:.1%}",
        )
    return table


def cases_view(cases: Sequence[SubagentCase]) -> RenderableType:
    """Each case with what is expected of it."""
    table = Table(title=counted(len(cases), "case"), title_justify="left")
    for column in ("case", "role", "family", "expected"):
        table.add_column(column)
    for case in cases:
        labels = " or ".join(label.value for label in case.expected.labels)
        table.add_row(case.case_id, case.role.value, case.family, labels)
    return table
