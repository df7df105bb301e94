"""Bytes with a digest, and the tree of them a session starts from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum

from openeta_exp.domain.grasp_strategy import GraspStrategy, parse_strategy
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.record import Record, digest
from openeta_exp.domain.skill import Skill, parse_skill


class ArtifactKind(StrEnum):
    """What a generation may change. Every kind goes through the same gate."""

    SKILL = "skill"
    GRASP_STRATEGY = "grasp_strategy"


SUFFIX = {ArtifactKind.SKILL: ".md", ArtifactKind.GRASP_STRATEGY: ".json"}
"""File ending of each kind."""


class Artifact(Record):
    """One named piece of guidance, by its text."""

    kind: ArtifactKind
    name: str
    text: str

    @property
    def content_digest(self) -> Digest:
        return Digest(hashlib.sha256(self.text.encode("utf-8")).hexdigest())


class ArtifactTree(Record):
    """Everything a session starts from. Immutable; a change is a new tree."""

    artifacts: tuple[Artifact, ...] = ()

    @property
    def content_digest(self) -> Digest:
        """Identity of the tree: kinds, names and contents, in canonical order."""
        return Digest(
            digest([[each.kind, each.name, each.content_digest] for each in self._sorted()])
        )

    def _sorted(self) -> list[Artifact]:
        return sorted(self.artifacts, key=lambda each: (each.kind, each.name))

    def of(self, kind: ArtifactKind) -> tuple[Artifact, ...]:
        return tuple(each for each in self._sorted() if each.kind is kind)

    def get(self, kind: ArtifactKind, name: str) -> Artifact | None:
        return next((each for each in self.of(kind) if each.name == name), None)

    def with_changes(self, changed: Iterable[Artifact]) -> ArtifactTree:
        """This tree with artifacts added or replaced."""
        merged = {(each.kind, each.name): each for each in self.artifacts}
        merged.update({(each.kind, each.name): each for each in changed})
        return ArtifactTree(artifacts=tuple(merged.values()))

    def without(self, kind: ArtifactKind, name: str) -> ArtifactTree:
        """This tree with one artifact left out."""
        kept = (each for each in self.artifacts if (each.kind, each.name) != (kind, name))
        return ArtifactTree(artifacts=tuple(kept))

    def changed_from(self, baseline: ArtifactTree) -> tuple[Artifact, ...]:
        """Artifacts that are new or differ in content from the baseline's."""
        before = {(each.kind, each.name): each.content_digest for each in baseline.artifacts}
        return tuple(
            each
            for each in self._sorted()
            if before.get((each.kind, each.name)) != each.content_digest
        )

    def skills(self) -> tuple[Skill, ...]:
        """Raises: ArtifactError: If a skill does not parse."""
        return tuple(
            parse_skill(each.text, source=f"skill {each.name}")
            for each in self.of(ArtifactKind.SKILL)
        )

    def grasp_strategies(self) -> tuple[GraspStrategy, ...]:
        """Raises: ArtifactError: If a strategy does not parse."""
        return tuple(
            parse_strategy(each.text, source=f"grasp strategy {each.name}")
            for each in self.of(ArtifactKind.GRASP_STRATEGY)
        )
