"""Words by which a text asks for more than it may have."""

from __future__ import annotations

import re
import unicodedata

_VERB = (
    r"(?:ignor|bypass|skip|disabl|circumvent|overrid|switch(?:ing)? off|turn(?:ing)? off|"
    r"get around|without)"
)
_GUARD = r"(?:check|gate|limit|review|safety|collision|supervis|approv|guard|instruction|rule|veto)"
_OVERREACH = re.compile(
    rf"{_VERB}\w*\b.{{0,40}}\b{_GUARD}|"
    r"outside_sandbox|api[_ -]?key|environment variable|system prompt|"
    r"(?:always|just|must|please|simply) (?:answer )?approve|approve (?:this|it|everything)|"
    r"pre-?approved|you are now|already (?:been )?authori[sz]ed|"
    r"\"?decision\"?\s*[:=]\s*\"?(?:approve|answer)|"
    r"(?:reply|respond|answer) with (?:approve|yes)",
    re.IGNORECASE | re.DOTALL,
)
_INVISIBLE = {"Cf", "Mn", "Cc"}


def overreach(text: str) -> str | None:
    """The words that ask for it, or None. Look-alike and invisible characters do not hide them."""
    found = _OVERREACH.search(plain(text))
    return None if found is None else found.group(0)


def plain(text: str) -> str:
    """Compatibility characters folded, invisible ones dropped, white space single."""
    folded = unicodedata.normalize("NFKD", text)
    kept = "".join(
        " " if char in "\n\t\r" else char
        for char in folded
        if char in "\n\t\r" or unicodedata.category(char) not in _INVISIBLE
    )
    return " ".join(kept.translate(_LOOK_ALIKES).split())


_LOOK_ALIKES = str.maketrans("аеорсухіѕ", "aeopcyxis")
"""Cyrillic letters that look like Latin ones."""
