"""What a change changes, as text."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from openeta_exp.domain.artifact import Artifact, ArtifactTree


def tree_diff(before: ArtifactTree, after: ArtifactTree) -> str:
    """A unified diff of every artifact that differs; empty if none does.

    An artifact that comes for one of its kind that goes is shown as a change of it.
    """
    lines: list[str] = []
    for old, new in _changed(before, after):
        lines += difflib.unified_diff(
            [] if old is None else old.text.splitlines(),
            [] if new is None else new.text.splitlines(),
            fromfile="nothing" if old is None else f"{old.kind}/{old.name}",
            tofile="nothing" if new is None else f"{new.kind}/{new.name}",
            lineterm="",
        )
    return "".join(f"{line}\n" for line in lines)


def _changed(
    before: ArtifactTree, after: ArtifactTree
) -> Iterator[tuple[Artifact | None, Artifact | None]]:
    gone = [each for each in before.artifacts if after.get(each.kind, each.name) is None]
    for new in after.changed_from(before):
        same = before.get(new.kind, new.name)
        old = same or next((each for each in gone if each.kind is new.kind), None)
        if old in gone:
            gone.remove(old)
        yield old, new
    for old in gone:
        yield old, None
