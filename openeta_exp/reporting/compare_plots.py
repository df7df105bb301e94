"""Pictures of a comparison of policies, as SVG: estimates, heat maps, curves over levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openeta_exp.domain.counting import counted
from openeta_exp.domain.policy_comparison import HeatMapTable, PairCounts, SweepCurve
from openeta_exp.reporting.compare_view import value_words
from openeta_exp.reporting.comparison_plots import points
from openeta_exp.reporting.svg import (
    BETTER,
    GRID,
    INK,
    MUTED,
    PALE,
    WORSE,
    Scale,
    box,
    clipped,
    dot,
    line,
    path,
    picture,
    text,
)

_WIDTH = 760
_CURVES = (BETTER, WORSE, INK, "#7a5195", "#2f7d32")
_PALEST = 0.15
"""Share of full colour of the smallest difference that is not zero."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A difference of success rates with its interval.

    Attributes:
        counts: Shown at the end of its row.
    """

    label: str
    value: float
    low: float
    high: float
    counts: str


def estimates(rows: Sequence[Estimate], *, title: str) -> str:
    """Rows of whiskers around zero, in percentage points."""
    low = min(-0.25, *(math.floor(4 * row.low) / 4 for row in rows))
    high = max(0.25, *(math.ceil(4 * row.high) / 4 for row in rows))
    scale = Scale(low, high, 230, _WIDTH - 160)
    row_height, top = 22, 20
    bottom = top + row_height * len(rows)
    shapes = []
    for quarter in range(round(4 * low), round(4 * high) + 1):
        x = scale(quarter / 4)
        stroke = GRID if quarter else INK
        shapes += [
            line((x, top - 6), (x, bottom), stroke=stroke),
            text((x, bottom + 16), points(quarter / 4), size=11, anchor="middle", fill=MUTED),
        ]
    for place, row in enumerate(rows):
        y = top + row_height * place + row_height / 2
        at = scale(row.value)
        shapes += [
            text((8, y + 4), clipped(row.label, 34), hover=row.label),
            line((scale(row.low), y), (scale(row.high), y), stroke=MUTED, width=1.5),
            box((at - 4, y - 4), 8, 8, fill=_colour(row.value)),
            text((_WIDTH - 150, y + 4), row.counts, size=11, fill=MUTED),
        ]
    return picture(_WIDTH, bottom + 24, shapes, title=title)


def _colour(difference: float) -> str:
    if difference == 0:
        return INK
    return BETTER if difference > 0 else WORSE


def heat_map(found: HeatMapTable) -> str:
    """One cell for each two values; the darker, the further apart the policies are."""
    left, top = 130, 46
    width = min(70.0, (_WIDTH - left) / max(len(found.columns), 1))
    height = 30
    shapes = [
        text((left, 16), f"{found.columns_parameter} across", fill=MUTED),
        text((8, top - 8), f"{found.rows_parameter} down", fill=MUTED),
    ]
    for column, value in enumerate(found.columns):
        x = left + column * width + width / 2
        words = clipped(value_words(value), max(3, int(width / 7)))
        shapes.append(text((x, top - 8), words, size=11, anchor="middle", hover=value_words(value)))
    for row, (value, cells) in enumerate(zip(found.rows, found.cells, strict=True)):
        y = top + row * height
        words = value_words(value)
        shapes.append(
            text((left - 10, y + 19), clipped(words, 16), size=11, anchor="end", hover=words)
        )
        for column, counts in enumerate(cells):
            shapes += _cell(counts, left + column * width, y, width=width, height=height)
    names = f"{found.rows_parameter} and {found.columns_parameter}"
    return picture(
        left + width * len(found.columns) + 8,
        top + height * len(found.rows) + 8,
        shapes,
        title=f"difference of success rates by {names}",
    )


def _cell(
    counts: PairCounts | None, x: float, y: float, *, width: float, height: float
) -> list[str]:
    if counts is None or counts.difference is None:
        return [box((x + 1, y + 1), width - 2, height - 2, fill="white", stroke=GRID)]
    difference = counts.difference
    told = (
        f"{counts.candidate_only} fixed, {counts.baseline_only} regressed of "
        f"{counted(counts.pairs, 'pair')}"
    )
    fill = PALE if difference == 0 else _blend(_colour(difference), abs(difference))
    ink = "white" if abs(difference) > 0.5 else INK
    return [
        box((x + 1, y + 1), width - 2, height - 2, fill=fill),
        text(
            (x + width / 2, y + 19),
            "·" if difference == 0 else points(difference),
            size=11,
            anchor="middle",
            fill=ink,
            hover=told,
        ),
    ]


def _blend(colour: str, share: float) -> str:
    """The colour on white, by a share of 0 to 1."""
    share = _PALEST + (1 - _PALEST) * min(share, 1.0)
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)


def level_curves(curves: Sequence[SweepCurve]) -> str:
    """Success rate over the level of a perturbation, a line for each policy."""
    drawn = {curve.policy: [row for row in curve.levels if row.exposed] for curve in curves}
    levels = sorted({row.level for rows in drawn.values() for row in rows})
    if not levels:
        return ""
    across = Scale(levels[0], levels[-1] if len(levels) > 1 else levels[0] + 1, 60, _WIDTH - 170)
    up = Scale(0.0, 1.0, 230, 20)
    shapes = []
    for quarter in range(5):
        y = up(quarter / 4)
        shapes += [
            line((60, y), (_WIDTH - 170, y)),
            text((52, y + 4), f"{25 * quarter} %", size=11, anchor="end", fill=MUTED),
        ]
    for level in levels:
        x = across(level)
        shapes.append(text((x, 248), value_words(level), size=11, anchor="middle", fill=MUTED))
    for place, (policy, rows) in enumerate(drawn.items()):
        colour = _CURVES[place % len(_CURVES)]
        corners = [(across(row.level), up(row.successes / row.exposed)) for row in rows]
        for row, (x, y) in zip(rows, corners, strict=True):
            shapes += [
                line((x, up(row.low)), (x, up(row.high)), stroke=colour, width=1),
                dot((x, y), 3.5, fill=colour),
            ]
        shapes.append(path(corners, stroke=colour))
        shapes.append(text((_WIDTH - 160, 30 + 18 * place), policy, fill=colour, bold=True))
    names: Mapping[str, None] = dict.fromkeys(curve.task_id for curve in curves)
    return picture(_WIDTH, 262, shapes, title=f"success over level: {', '.join(names)}")
