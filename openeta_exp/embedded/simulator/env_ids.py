"""Env ids: which scene and task a string such as `openeta/tabletop_pick_can_basket-v0` names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from openeta_exp.domain.manifest import canonical_env_id

_LIBERO = re.compile(r"openeta/libero_(?P<suite>[a-z0-9_.]+)_task(?P<index>[0-9]+)-v0")
_TABLETOP = re.compile(r"openeta/tabletop_(?P<slug>[a-z0-9_]+)-v0")


@dataclass(frozen=True, slots=True)
class LiberoId:
    """A task of a LIBERO suite, by its position in the suite."""

    suite: str
    task_index: int

    family: ClassVar[str] = "libero"
    """Processes of one family can be rebuilt for each other's tasks without a restart."""

    def __str__(self) -> str:
        return f"openeta/libero_{self.suite}_task{self.task_index}-v0"

    @property
    def affinity(self) -> str:
        """Processes with equal affinity can stand in for each other without rebuilding."""
        return str(self)


@dataclass(frozen=True, slots=True)
class TabletopId:
    """A task of the tabletop; every task shares one model."""

    slug: str

    family: ClassVar[str] = "tabletop"

    def __str__(self) -> str:
        return f"openeta/tabletop_{self.slug}-v0"

    @property
    def affinity(self) -> str:
        return "tabletop"


EnvId = LiberoId | TabletopId


def parse_env_id(text: str) -> EnvId:
    """Raises: ValueError: If the text is no env id of an embedded backend, or not its spelling."""
    if (spelling := canonical_env_id(text)) != text:
        raise ValueError(f"{text!r} is no environment; did you mean {spelling}?")
    if match := _LIBERO.fullmatch(text):
        return LiberoId(match["suite"], int(match["index"]))
    if match := _TABLETOP.fullmatch(text):
        return TabletopId(match["slug"])
    raise ValueError(
        f"{text!r} is not openeta/libero_<suite>_task<N>-v0 or openeta/tabletop_<task>-v0"
    )
