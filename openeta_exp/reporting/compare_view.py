"""Which policy is better, on which scenarios and how surely, as tables a person reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.policy_comparison import (
    ComparedPolicy,
    Contrast,
    Difference,
    Ending,
    FlippedEpisode,
    HeatMapTable,
    PairCounts,
    ParameterRow,
    PolicyComparison,
    Standing,
    SweepCurve,
    TaskContrast,
)
from openeta_exp.reporting.catalog_view import check_view
from openeta_exp.reporting.live_view import clock

_FLIPS = 5
"""Episodes of each contrast that are listed; the page and the result file have all."""
_COLUMNS = 12
"""Widest heat map a terminal shows."""
_STYLES = {
    Standing.REGRESSED: "bold red",
    Standing.BETTER: "bold green",
    Standing.EQUIVALENT: "green",
    Standing.NOT_WORSE: "green",
    Standing.INCONCLUSIVE: "yellow",
}


def compare_view(result: PolicyComparison, *, folder: Path) -> RenderableType:
    """Policies, then each contrast with where it differs, then what all that comes to.

    Args:
        folder: Where result file and page are.
    """
    parts: list[RenderableType] = [Text(""), Text(_title(result), style="bold")]
    parts += [Text(each, style="yellow") for each in stamps(result)]
    parts += [Text(f"warning: {each}", style="yellow") for each in result.warnings]
    parts.append(_policies(result.policies))
    if repeats_words(result):
        parts.append(Text(repeats_words(result), style="dim"))
    for contrast in result.contrasts:
        parts += _contrast(contrast)
    if result.curves:
        parts.append(_curves(result.curves))
    parts.append(check_view(result.checks, problems_only=True))
    parts += _ending(result, folder)
    return Group(*parts)


def _title(result: PolicyComparison) -> str:
    repeats = f" x {result.repeats} repeats" if result.repeats > 1 else ""
    return (
        f"{result.experiment_id} · {counted(result.scenarios, 'scenario')}{repeats} · "
        f"{counted(len(result.policies), 'policy', plural='policies')} · gate {result.gate.mode}"
    )


def stamps(result: PolicyComparison) -> Iterator[str]:
    """What no report of this result goes without."""
    if result.invalid_overridden:
        yield "the checks say that this comparison means nothing; catalog.allow_invalid=true"
    scripted = [each.name for each in result.policies if each.scripted]
    if scripted:
        yield f"no trained model is behind {', '.join(scripted)}"


def _policies(policies: Sequence[ComparedPolicy]) -> Table:
    table = _table("policy", "identity", "solved", "rate (95 %)", "steps", "answer p50 / p95")
    for each in policies:
        table.add_row(
            Text(each.name),
            each.arm_digest[:8],
            f"{each.successes}/{each.verdicts}",
            rate_words(each),
            "-" if each.mean_steps is None else f"{each.mean_steps:.0f}",
            answer_words(each),
        )
    return table


def rate_words(policy: ComparedPolicy) -> str:
    """The success rate with its interval, and what broke."""
    if policy.rate is None:
        return f"- ({policy.broken} broken)"
    words = f"{100 * policy.rate:.0f} % ({100 * policy.low:.0f} to {100 * policy.high:.0f} %)"
    return f"{words}, {policy.broken} broken" if policy.broken else words


def repeats_words(result: PolicyComparison) -> str:
    """What the intervals count; empty where scenarios and episodes are the same."""
    if result.repeats == 1:
        return ""
    return (
        "A scenario that is run again counts once in the intervals of rates. Those of differences "
        "go by how scenarios differ, and allow for kinds of scenarios that did not turn up."
    )


def answer_words(policy: ComparedPolicy) -> str:
    """How long the policy takes to answer."""
    if policy.answer_p50_s is None or policy.answer_p95_s is None:
        return "-"
    return f"{1000 * policy.answer_p50_s:.2g} / {1000 * policy.answer_p95_s:.2g} ms"


def _contrast(contrast: Contrast) -> list[RenderableType]:
    heading = Text(f"\n{contrast.candidate} against {contrast.baseline}: ", style="bold")
    heading.append(contrast.standing.replace("_", " ").upper(), style=_STYLES[contrast.standing])
    parts: list[RenderableType] = [heading, Text(f"  {pair_words(contrast.counts)}")]
    parts.append(Text(f"  {difference_words(contrast.difference)}"))
    parts += [Text(f"  {each}") for each in contrast.reasons]
    if contrast.better.more_pairs is not None:
        more = counted(contrast.better.more_pairs, "more scenario")
        parts.append(Text(f"  about {more} would decide"))
    if len(contrast.tasks) > 1:
        parts.append(_tasks(contrast.tasks))
    if contrast.parameters:
        parts.append(_parameters(contrast.parameters))
    parts += [_heat_map(each) for each in contrast.heat_maps if _is_telling(each)]
    if contrast.flips:
        parts += _flips(contrast)
    return parts


def pair_words(counts: PairCounts) -> str:
    """Who solved what."""
    words = (
        f"{counts.candidate_only} fixed, {counts.baseline_only} regressed, {counts.both} solved "
        f"by both, {counts.neither} by neither"
    )
    return f"{words}; {counts.excluded} without a verdict" if counts.excluded else words


def difference_words(difference: Difference | None) -> str:
    """The estimate over all pairs."""
    if difference is None:
        return "no pair has a verdict"
    return (
        f"{points(difference.value)} points ({100 * difference.level:.0f} % CI "
        f"{points(difference.low)} to {points(difference.high)})"
    )


def _interval(difference: Difference) -> str:
    bounds = f"{points(difference.low)} to {points(difference.high)}"
    return f"{points(difference.value)} ({bounds})"


def points(rate: float) -> str:
    """A difference of rates in percentage points, with its sign."""
    return f"{100 * rate:+.1f}"


def _tasks(tasks: Sequence[TaskContrast]) -> Table:
    table = _table("task", "fixed", "regressed", "pairs", "points (95 % CI)", "standing")
    for each in tasks:
        table.add_row(
            Text(each.task_id),
            str(each.counts.candidate_only),
            str(each.counts.baseline_only),
            str(each.counts.pairs),
            "-" if each.difference is None else _interval(each.difference),
            Text(each.standing.replace("_", " "), style=_STYLES[each.standing]),
        )
    return table


def _parameters(rows: Sequence[ParameterRow]) -> Table:
    table = _table("parameter", "value", "fixed", "regressed", "pairs", "points (95 %)")
    shown = ""
    for row in rows:
        difference = row.counts.difference
        table.add_row(
            row.parameter if row.parameter != shown else "",
            value_words(row.value),
            str(row.counts.candidate_only),
            str(row.counts.baseline_only),
            str(row.counts.pairs),
            "-"
            if difference is None or row.low is None or row.high is None
            else f"{points(difference)} ({points(row.low)} to {points(row.high)})",
        )
        shown = row.parameter
    return table


def _is_telling(found: HeatMapTable) -> bool:
    """Whether it fits a terminal, and shows a difference."""
    cells = (cell for row in found.cells for cell in row if cell is not None)
    return len(found.columns) <= _COLUMNS and any(cell.difference for cell in cells)


def _heat_map(found: HeatMapTable) -> Table:
    """Points by two parameters; a dot where both policies do alike."""
    table = _table(f"{found.rows_parameter} \\ {found.columns_parameter}")
    for value in found.columns:
        table.add_column(value_words(value), justify="right")
    for value, cells in zip(found.rows, found.cells, strict=True):
        table.add_row(value_words(value), *(_cell(each) for each in cells))
    return table


def _cell(counts: PairCounts | None) -> Text:
    if counts is None or counts.difference is None:
        return Text("", style="dim")
    if counts.difference == 0:
        return Text("·", style="dim")
    style = "green" if counts.difference > 0 else "red"
    return Text(f"{100 * counts.difference:+.0f}", style=style)


def _flips(contrast: Contrast) -> list[RenderableType]:
    parts: list[RenderableType] = [Text("  episodes that flipped, and how to run them again:")]
    for each in contrast.flips[:_FLIPS]:
        style = "green" if each.improved else "red"
        parts.append(Text(f"  {flip_words(each)}", style=style))
        # There to be copied: never wrapped.
        parts.append(Text(f"    {each.replay}", style="dim", no_wrap=True, overflow="ignore"))
    if len(contrast.flips) > _FLIPS:
        parts.append(Text(f"  and {len(contrast.flips) - _FLIPS} more in the page", style="dim"))
    return parts


def flip_words(flip: FlippedEpisode) -> str:
    """Which way, which episode, which scenario."""
    way = "fixed" if flip.improved else "regressed"
    return f"{way} {flip.episode_id} {scenario_words(flip.scenario)}"


def scenario_words(scenario: Mapping[str, JsonValue]) -> str:
    """The values of a scenario in one line."""
    return ", ".join(f"{name} {value_words(value)}" for name, value in scenario.items())


def value_words(value: JsonValue) -> str:
    """A value as short as it can be told."""
    return f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _curves(curves: Sequence[SweepCurve]) -> Table:
    table = _table("policy", "task", "level", "solved", "rate (95 %)", "not exposed")
    for curve in curves:
        for place, row in enumerate(curve.levels):
            rate = "-"
            if row.exposed:
                low, high = 100 * row.low, 100 * row.high
                rate = f"{100 * row.successes / row.exposed:.0f} % ({low:.0f} to {high:.0f} %)"
            table.add_row(
                "" if place else Text(curve.policy),
                "" if place else Text(curve.task_id),
                f"{row.level:g}",
                f"{row.successes}/{row.exposed}",
                rate,
                str(row.unexposed + row.broken),
            )
    return table


_ENDINGS = {
    Ending.NOT_WORSE: "no policy is worse than the first",
    Ending.INCONCLUSIVE: "not decided",
    Ending.REGRESSED: "a policy got worse",
    Ending.INVALID: "the comparison means nothing; catalog.allow_invalid=true runs it all the same",
    Ending.PARTIAL: "partial: episodes have no verdict; the same command runs only these again",
}


def ending_words(result: PolicyComparison) -> str:
    """The answer in one line."""
    standings = ", ".join(
        f"{each.candidate} {each.standing.replace('_', ' ')}" for each in result.contrasts
    )
    return f"{_ENDINGS[result.reason]}" + (f" ({standings})" if standings else "")


def _ending(result: PolicyComparison, folder: Path) -> list[RenderableType]:
    bad = result.exit_code != 0
    missing = sum(each.missing for each in result.contrasts)
    lines = [Text(""), Text(ending_words(result), style="bold red" if bad else "bold")]
    if missing:
        lines.append(Text(f"{counted(missing, 'pair')} without a verdict", style="yellow"))
    lines.append(Text(f"{clock(result.duration_s)}; exit code {result.exit_code}", style="dim"))
    lines += [
        Text(f"{name:<10}  {folder / file}", no_wrap=True, overflow="ignore")
        for name, file in (("result", "comparison.json"), ("page", "report.html"))
    ]
    return list(lines)


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    return table
