"""The three pictures of a paired comparison, as SVG: matrix, forest, evidence path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from openeta_exp.domain.counting import counted
from openeta_exp.domain.pair import PairObservation, PairOutcome
from openeta_exp.domain.verdict import Bounds, Effect, EvidencePoint, TaskEffect
from openeta_exp.reporting.svg import (
    BETTER,
    GRID,
    INK,
    MUTED,
    PALE,
    PALE_BETTER,
    PALE_WORSE,
    WORSE,
    Point,
    Scale,
    box,
    clipped,
    diamond,
    dot,
    line,
    path,
    picture,
    text,
)

_WIDTH = 760


def points(rate: float) -> str:
    """A difference of rates in percentage points, with its sign."""
    return f"{100 * rate:+.0f}"


def paired_matrix(pairs: Iterable[PairObservation]) -> str:
    """Two by two: what each arm made of the same episodes."""
    found = list(pairs)
    outcomes = [pair.outcome for pair in found]
    at_reset = sum(pair.solved_at_reset for pair in found)
    broken = outcomes.count(PairOutcome.EXCLUDED) - at_reset
    left_out = [f"{broken} more broke in at least one arm"] if broken else []
    left_out += [f"{at_reset} more were solved at reset"] if at_reset else []
    return outcome_matrix(
        {outcome: outcomes.count(outcome) for outcome in PairOutcome},
        left_out=" and ".join(left_out),
    )


def outcome_matrix(
    count: Mapping[PairOutcome, int],
    *,
    baseline: str = "the baseline",
    candidate: str = "the candidate",
    left_out: str = "",
) -> str:
    """The same from counts, with the arms called by their names.

    Args:
        left_out: Why pairs are excluded, where that is known.
    """
    first, second = baseline.removeprefix("the "), candidate.removeprefix("the ")
    cells = (
        (0, 0, PairOutcome.TIED_SUCCESS, "both solve it", PALE, INK),
        (1, 0, PairOutcome.REGRESSED, f"REGRESSED: only {baseline}", PALE_WORSE, WORSE),
        (0, 1, PairOutcome.IMPROVED, f"FIXED: only {candidate}", PALE_BETTER, BETTER),
        (1, 1, PairOutcome.TIED_FAILURE, "neither solves it", PALE, INK),
    )
    left, top, width, height = 130, 44, 210, 86
    shapes = [
        text((left + width / 2, 34), f"{second} solves", anchor="middle", fill=MUTED),
        text((left + 1.5 * width, 34), f"{second} fails", anchor="middle", fill=MUTED),
        text((left - 10, top + height / 2), f"{first} solves", anchor="end", fill=MUTED),
        text((left - 10, top + 1.5 * height), f"{first} fails", anchor="end", fill=MUTED),
    ]
    for column, row, outcome, words, fill, ink in cells:
        x, y = left + column * width, top + row * height
        shapes += [
            box((x + 2, y + 2), width - 4, height - 4, fill=fill),
            text(
                (x + width / 2, y + 44),
                str(count[outcome]),
                size=28,
                anchor="middle",
                fill=ink,
                bold=True,
            ),
            text((x + width / 2, y + 66), words, anchor="middle", fill=ink),
        ]
    excluded = count[PairOutcome.EXCLUDED]
    if excluded:
        words = left_out or f"{excluded} more have no verdict in at least one arm"
        words = f"{words}: excluded"
        shapes.append(text((left, top + 2 * height + 20), words, fill=MUTED))
    title = (
        f"{count[PairOutcome.IMPROVED]} fixed, {count[PairOutcome.REGRESSED]} regressed, "
        f"{count[PairOutcome.TIED_SUCCESS]} solved by both, "
        f"{count[PairOutcome.TIED_FAILURE]} by neither"
    )
    return picture(left + 2 * width + 10, top + 2 * height + 30, shapes, title=title)


def forest(tasks: Sequence[TaskEffect], effect: Effect, *, delta_min: float | None) -> str:
    """Difference of success rates by task with 90 % intervals, and of all of them together."""
    ranked = sorted(tasks, key=lambda task: (-task.difference, task.task_id))
    scale = Scale(*_reach(ranked, effect), 300, _WIDTH - 130)
    row_height, top = 24, 46
    bottom = top + row_height * (len(ranked) + 1)
    shapes = [*_difference_axis(scale, top=top, bottom=bottom)]
    if delta_min is not None and scale.low < delta_min < scale.high:
        x = scale(delta_min)
        shapes += [
            line((x, top - 6), (x, bottom), stroke=MUTED, dash="3 4"),
            text((x, top - 26), f"worth it: {points(delta_min)}", size=11, anchor="middle"),
        ]
    shapes += [
        text((8, top - 10), "task", size=11, fill=MUTED),
        text((_WIDTH - 118, top - 10), "fixed / regressed of", size=11, fill=MUTED),
    ]
    for row, task in enumerate(ranked):
        shapes += _forest_row(task, scale, y=top + row_height * row + 14)
    shapes += _pooled_row(effect, scale, y=top + row_height * len(ranked) + 16)
    title = (
        f"{counted(100 * effect.difference, 'point', spec='+.0f')} over "
        f"{counted(effect.pairs, 'pair')} of {counted(len(ranked), 'task')}"
    )
    return picture(_WIDTH, bottom + 24, shapes, title=title)


def _reach(tasks: Sequence[TaskEffect], effect: Effect) -> tuple[float, float]:
    """Whole quarters around every interval."""
    bounds = [effect.tango_90, *(task.tango_90 for task in tasks)]
    low = min(each.low for each in bounds)
    high = max(each.high for each in bounds)
    return min(-0.25, math.floor(4 * low) / 4), max(0.25, math.ceil(4 * high) / 4)


def _difference_axis(scale: Scale, *, top: float, bottom: float) -> Iterable[str]:
    quarters = range(round(4 * scale.low), round(4 * scale.high) + 1)
    for value in (quarter / 4 for quarter in quarters):
        x = scale(value)
        stroke, width = (INK, 1.2) if value == 0 else (GRID, 1)
        yield line((x, top - 6), (x, bottom), stroke=stroke, width=width)
        words = "0" if value == 0 else points(value)
        yield text((x, bottom + 16), words, size=11, anchor="middle", fill=MUTED)


def _forest_row(task: TaskEffect, scale: Scale, *, y: float) -> list[str]:
    name = task.task_id.rpartition(": ")[2]
    size = min(10.0, 3 + math.sqrt(task.pairs))
    at = scale(task.difference)
    return [
        text((8, y + 4), clipped(name, 42), hover=task.task_id),
        *_whiskers(task.tango_90, scale, y=y),
        box((at - size / 2, y - size / 2), size, size, fill=_side(task.difference)),
        text((_WIDTH - 118, y + 4), f"{task.wins} / {task.losses} of {task.pairs}", fill=MUTED),
    ]


def _pooled_row(effect: Effect, scale: Scale, *, y: float) -> list[str]:
    bounds = effect.tango_90
    return [
        text((8, y + 4), "all tasks", bold=True),
        diamond((scale(bounds.low), y), (scale(bounds.high), y), half_height=7),
        text(
            (_WIDTH - 118, y + 4), f"{effect.wins} / {effect.losses} of {effect.pairs}", bold=True
        ),
    ]


def _whiskers(bounds: Bounds, scale: Scale, *, y: float) -> list[str]:
    low, high = scale(bounds.low), scale(bounds.high)
    return [
        line((low, y), (high, y), stroke=MUTED, width=1.5),
        line((low, y - 4), (low, y + 4), stroke=MUTED, width=1.5),
        line((high, y - 4), (high, y + 4), stroke=MUTED, width=1.5),
    ]


def _side(difference: float) -> str:
    if difference == 0:
        return INK
    return BETTER if difference > 0 else WORSE


def evidence_path(
    looks: Sequence[EvidencePoint],
    pairs: Sequence[PairObservation],
    *,
    n_max: int | None,
    alpha: float | None,
) -> str:
    """Lead of the candidate pair by pair with the boundaries of each look; e-value beneath.

    Args:
        pairs: Those the verdict rests on, in schedule order; excluded ones take no place. Without
            them the lead is drawn from look to look.
    """
    leads = list(enumerate(_leads(pairs)))
    if not pairs:
        leads += [(look.pairs, look.wins - look.losses) for look in looks]
    last = max(n_max or 0, *(at for at, _ in leads), *(look.pairs for look in looks), 1)
    across = Scale(0, last, 56, _WIDTH - 170)
    shapes = [
        *_lead_panel(looks, leads, across, top=34, bottom=240),
        *_e_value_panel(looks, across, alpha=alpha, top=290, bottom=400),
        *_pair_axis(across, last=last, y=400),
    ]
    end = looks[-1] if looks else None
    title = "no look was taken" if end is None else f"decided after {counted(end.pairs, 'pair')}"
    return picture(_WIDTH, 440, shapes, title=title)


def _leads(pairs: Sequence[PairObservation]) -> list[int]:
    """Wins minus losses after 0, 1, 2, ... valid pairs."""
    leads = [0]
    for pair in pairs:
        if pair.valid:
            leads.append(leads[-1] + pair.difference)
    return leads


def _lead_panel(
    looks: Sequence[EvidencePoint],
    leads: Sequence[tuple[int, int]],
    across: Scale,
    *,
    top: float,
    bottom: float,
) -> list[str]:
    promote = [(look.pairs, _lead_to_promote(look)) for look in looks]
    give_up = [(look.pairs, look.lead_to_continue) for look in looks]
    heights = [
        *(lead for _, lead in leads),
        *(each for _, each in (*promote, *give_up) if each is not None),
        -2,
        3,
    ]
    up = Scale(math.floor(min(heights)) - 1, math.ceil(max(heights)) + 1, bottom, top)
    shapes = [text((8, 18), "lead: fixed minus regressed", bold=True)]
    step = max(1, math.ceil((up.high - up.low) / 8))
    for value in range(math.ceil(up.low / step) * step, math.floor(up.high) + 1, step):
        stroke = MUTED if value == 0 else GRID
        shapes += [
            line((across.first, up(value)), (across.last, up(value)), stroke=stroke),
            text((across.first - 8, up(value) + 4), str(value), size=11, anchor="end", fill=MUTED),
        ]
    shapes.append(path([(across(at), up(lead)) for at, lead in leads]))
    if looks:
        end = looks[-1]
        at = (across(end.pairs), up(end.wins - end.losses))
        shapes += [
            line((at[0], top), (at[0], bottom), stroke=MUTED, dash="2 3"),
            dot(at, 5),
            text((at[0], top - 6), f"stopped at {end.pairs}", size=11, anchor="middle"),
        ]
    for boundary, colour, words in (
        (promote, BETTER, "enough to promote"),
        (give_up, WORSE, "too little to go on"),
    ):
        shapes += _boundary(boundary, across, up, colour=colour, words=words)
    return shapes


def _lead_to_promote(look: EvidencePoint) -> float | None:
    """Wins needed among the discordant pairs of a look, as a lead."""
    if look.wins_to_promote is None:
        return None
    return 2 * look.wins_to_promote - (look.wins + look.losses)


def _boundary(
    boundary: Sequence[tuple[int, float | None]],
    across: Scale,
    up: Scale,
    *,
    colour: str,
    words: str,
) -> list[str]:
    """Dots where a look had this boundary, joined where neighbours have it too."""
    shapes: list[str] = []
    last: Point | None = None
    for known, group in groupby(boundary, key=lambda each: each[1] is not None):
        if not known:
            continue
        corners = [(across(at), up(value)) for at, value in group if value is not None]
        shapes += [dot(at, 3, fill="white", stroke=colour) for at in corners]
        shapes.append(path(corners, stroke=colour, width=1.5, dash="5 4"))
        last = corners[-1]
    if last is not None:
        shapes.append(text((across.last + 10, last[1] + 4), words, size=11, fill=colour))
    return shapes


def _e_value_panel(
    looks: Sequence[EvidencePoint],
    across: Scale,
    *,
    alpha: float | None,
    top: float,
    bottom: float,
) -> list[str]:
    wanted = None if alpha is None or alpha == 0 else math.log10(1 / alpha)
    exponents = [math.log10(max(look.e_value, 1e-9)) for look in looks]
    high = max([*exponents, wanted or 0.0, 1.0]) + 0.2
    up = Scale(min([*exponents, -0.5]) - 0.2, high, bottom, top)
    shapes = [text((8, top - 14), "evidence: e-value, logarithmic", bold=True)]
    for exponent in range(math.ceil(up.low), math.floor(up.high) + 1):
        y = up(exponent)
        stroke = MUTED if exponent == 0 else GRID
        shapes += [
            line((across.first, y), (across.last, y), stroke=stroke),
            text(
                (across.first - 8, y + 4), f"{10.0**exponent:g}", size=11, anchor="end", fill=MUTED
            ),
        ]
    if wanted is not None and alpha is not None:
        y = up(wanted)
        words = f"1/alpha = {1 / alpha:.3g}"
        shapes += [
            line((across.first, y), (across.last, y), stroke=BETTER, width=1.5, dash="5 4"),
            text((across.last + 10, y + 4), words, size=11, fill=BETTER),
        ]
    corners = [(across(look.pairs), up(each)) for look, each in zip(looks, exponents, strict=True)]
    shapes.append(path([(across(0), up(0)), *corners]))
    return [*shapes, *(dot(at, 3) for at in corners)]


def _pair_axis(across: Scale, *, last: int, y: float) -> Iterable[str]:
    step = next((each for each in (1, 2, 5, 10, 20, 50, 100) if last / each <= 12), 200)
    for value in range(0, last + 1, step):
        yield text((across(value), y + 16), str(value), size=11, anchor="middle", fill=MUTED)
    yield text(((across.first + across.last) / 2, y + 34), "pairs", anchor="middle", fill=MUTED)
