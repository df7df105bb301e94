"""Which episodes an experiment runs (`manifest=`)."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import model_validator

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import Manifest, Split
from openeta_exp.domain.record import Record
from openeta_exp.wire.manifest import parse_manifest, read_manifest


class ManifestSettings(Record):
    """Which episodes exist: a file, or rows written in place."""

    path: Path | None = None
    """JSON or YAML, relative to where the command is started."""
    episodes: tuple[JsonObject, ...] | None = None
    split: Split | None = None
    """Overrides what the file says."""
    select: tuple[str, ...] | None = None
    """Ids of the episodes to take, in this order; null takes all."""

    @model_validator(mode="after")
    def _names_episodes_once(self) -> Self:
        if self.path is None and self.episodes is None:
            raise ValueError("names no episodes; set manifest.path=FILE or choose a manifest")
        if self.path is not None and self.episodes is not None:
            raise ValueError("names a file and rows; choose manifest=file for the file alone")
        return self

    def read(self) -> Manifest:
        """Raises: ManifestError: With every mistake of the file, the rows or the selection."""
        if self.path is not None:
            manifest = read_manifest(self.path)
        else:
            manifest = parse_manifest(list(self.episodes or ()), source="manifest.episodes")
        if self.select is not None:
            manifest = manifest.select(self.select)
        if self.split is None:
            return manifest
        return Manifest(episodes=manifest.episodes, split=self.split)
