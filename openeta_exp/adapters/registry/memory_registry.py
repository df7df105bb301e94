"""A registry that forgets: for checks that must not touch the disk."""

from __future__ import annotations

import threading

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.publication import (
    AliasMove,
    Publication,
    Receipt,
    RegistryEntry,
    admit,
    family_of,
    nothing_published,
    shelf,
    unknown_name,
    withdraw,
)


class MemoryRegistry:
    """See `ports.registry.Registry`; shared by the threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[Digest, RegistryEntry] = {}
        self._history: list[AliasMove] = []

    def publish(self, publication: Publication, *, at_s: float) -> Receipt:
        artifact = publication.artifact
        with self._lock:
            named = self._named(artifact.kind)
            ruling = admit(
                publication,
                now=shelf(self._history, kind=artifact.kind, family=publication.family),
                entries=named,
                at_s=at_s,
            )
            if ruling.moves and artifact.name not in named:
                entry = RegistryEntry(publication=publication, published_at_s=at_s)
                self._entries[entry.content_digest] = entry
            self._history += ruling.moves
        return ruling.receipt

    def roll_back(self, kind: ArtifactKind, name: str, *, reason: str, at_s: float) -> Receipt:
        with self._lock:
            if not self._history:
                raise nothing_published("memory")
            named = self._named(kind)
            if name not in named:
                raise unknown_name(name, named)
            artifact = named[name].artifact
            ruling = withdraw(
                artifact,
                now=shelf(self._history, kind=kind, family=family_of(artifact)),
                reason=reason,
                at_s=at_s,
            )
            self._history += ruling.moves
        return ruling.receipt

    def validated(self) -> ArtifactTree:
        with self._lock:
            families = {(move.kind, move.family) for move in self._history}
            shelves = [shelf(self._history, kind=kind, family=name) for kind, name in families]
            return ArtifactTree(
                artifacts=tuple(
                    self._entries[each.validated].artifact
                    for each in shelves
                    if each.validated is not None
                )
            )

    def history(self) -> tuple[AliasMove, ...]:
        with self._lock:
            return tuple(self._history)

    def _named(self, kind: ArtifactKind) -> dict[str, RegistryEntry]:
        return {
            entry.artifact.name: entry
            for entry in self._entries.values()
            if entry.artifact.kind is kind
        }
