"""Texts as values of Hydra overrides."""

from __future__ import annotations

import re
from collections.abc import Iterable


def override_text(text: str) -> str:
    """The text in quotes, whatever is in it.

    OmegaConf reads `${` as an interpolation unless a backslash stands before it; Hydra's quotes
    end at a quote unless a backslash does. Backslashes count only directly before either.
    """
    plain = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    plain = re.sub(r'(\\*)"', r'\1\1\\"', plain)
    plain = re.sub(r"(\\+)\Z", r"\1\1", plain)
    return f'"{plain}"'


def override_texts(texts: Iterable[str]) -> str:
    """A list of texts."""
    return f"[{','.join(override_text(each) for each in texts)}]"
