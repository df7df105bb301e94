"""A few shapes of SVG, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

INK = "#1f2328"
MUTED = "#57606a"
GRID = "#d8dee4"
BETTER = "#0b6e99"
WORSE = "#b54708"
"""Told apart also by those who see no difference between red and green."""
PALE_BETTER = "#ddeff6"
PALE_WORSE = "#fbe9dc"
PALE = "#f3f4f6"

_FONT = "font-family='system-ui,sans-serif'"


@dataclass(frozen=True, slots=True)
class Scale:
    """Values `low` to `high` on pixels `first` to `last`."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)


def picture(width: float, height: float, shapes: Iterable[str], *, title: str) -> str:
    """An SVG element that shrinks with its page. The title is read to who cannot see it."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' "
        f"width='{width:g}' style='max-width:100%;height:auto' role='img' {_FONT}>"
        f"<title>{escape(title)}</title>{''.join(shapes)}</svg>"
    )


def text(
    at: Point,
    content: str,
    *,
    size: float = 12,
    anchor: str = "start",
    fill: str = INK,
    bold: bool = False,
    hover: str = "",
) -> str:
    """
    Args:
        hover: A longer form, shown by browsers when the pointer rests on the text.
    """
    weight = " font-weight='600'" if bold else ""
    tip = f"<title>{escape(hover)}</title>" if hover else ""
    return (
        f"<text x='{at[0]:.1f}' y='{at[1]:.1f}' font-size='{size:g}' text-anchor='{anchor}' "
        f"fill='{fill}'{weight}>{escape(content)}{tip}</text>"
    )


def line(start: Point, end: Point, *, stroke: str = GRID, width: float = 1, dash: str = "") -> str:
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    return (
        f"<line x1='{start[0]:.1f}' y1='{start[1]:.1f}' x2='{end[0]:.1f}' y2='{end[1]:.1f}' "
        f"stroke='{stroke}' stroke-width='{width:g}'{dashed}/>"
    )


def path(points: Sequence[Point], *, stroke: str = INK, width: float = 2, dash: str = "") -> str:
    """A line through all points."""
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f"<polyline points='{through}' fill='none' stroke='{stroke}' stroke-width='{width:g}' "
        f"stroke-linejoin='round'{dashed}/>"
    )


def box(corner: Point, width: float, height: float, *, fill: str, stroke: str = "none") -> str:
    return (
        f"<rect x='{corner[0]:.1f}' y='{corner[1]:.1f}' width='{width:.1f}' "
        f"height='{height:.1f}' rx='2' fill='{fill}' stroke='{stroke}'/>"
    )


def dot(at: Point, radius: float, *, fill: str = INK, stroke: str = "none") -> str:
    return (
        f"<circle cx='{at[0]:.1f}' cy='{at[1]:.1f}' r='{radius:g}' fill='{fill}' "
        f"stroke='{stroke}'/>"
    )


def diamond(left: Point, right: Point, *, half_height: float, fill: str = INK) -> str:
    """From the left tip to the right one."""
    middle = (left[0] + right[0]) / 2
    corners = (left, (middle, left[1] - half_height), right, (middle, left[1] + half_height))
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f"<polygon points='{through}' fill='{fill}'/>"


def clipped(content: str, characters: int) -> str:
    """A text that fits, with an ellipsis where it was cut."""
    return content if len(content) <= characters else content[: characters - 1].rstrip() + "…"
