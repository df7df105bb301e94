"""A page that needs no network and no script: its frame, headlines and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; background: #fff;
  max-width: 800px; margin: 24px auto; padding: 0 20px; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 32px 0 8px; }
p, ul { margin: 6px 0; } .muted { color: #57606a; } .mono { font-family: ui-monospace, monospace; }
.verdict { border-left: 5px solid #57606a; background: #f3f4f6; padding: 10px 14px;
  margin: 14px 0; }
.promote { border-color: #0b6e99; background: #ddeff6; }
.reject { border-color: #b54708; background: #fbe9dc; }
table { border-collapse: collapse; margin: 6px 0; font-size: 14px; }
th, td { text-align: left; padding: 3px 14px 3px 0; border-bottom: 1px solid #d8dee4;
  vertical-align: top; } td:last-child { overflow-wrap: anywhere; }
th { font-weight: 600; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f3f4f6; padding: 10px; overflow-x: auto; font-size: 12.5px; line-height: 1.4; }
.add { color: #0b6e99; } .del { color: #b54708; } summary { cursor: pointer; color: #57606a; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole document.

    Args:
        parts: HTML, in order.
    """
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def section(title: str, content: str, *, note: str = "") -> list[str]:
    """A headline and what is under it; nothing if there is nothing."""
    if not content:
        return []
    said = f"<p class='muted'>{escape(note)}</p>" if note else ""
    return [f"<h2>{escape(title)}</h2>{said}{content}"]


def table(
    names: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()
) -> str:
    """
    Args:
        names: Of the columns; all empty for a table without a head.
        numbers: Columns that are aligned to the right.
    """

    def cells(row: Sequence[str], tag: str) -> str:
        marked = ((" class='n'" if at in numbers else "", each) for at, each in enumerate(row))
        return "".join(f"<{tag}{css}>{escape(each)}</{tag}>" for css, each in marked)

    head = f"<tr>{cells(names, 'th')}</tr>" if any(names) else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"
