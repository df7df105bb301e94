"""The folder of one experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.identity import SessionId
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.ports.session_log import SessionLogs
from openeta_exp.ports.store import Journal


class ExperimentStore(Protocol):
    """Everything one experiment leaves on disk. Held by one process at a time."""

    @property
    def journal(self) -> Journal: ...

    def begin_generation(self, record: GenerationRecord, tree: ArtifactTree) -> None:
        """Write the generation's immutable baseline, or find it unchanged.

        Raises:
            SettingsError: The generation has begun from something else, or its baseline files
                were changed since. Lists every difference.
            StoreError: It could not be written.
        """
        ...

    def sessions(self, *, generation: int, phase: str) -> SessionLogs: ...

    def session_tree(
        self, session_id: SessionId, *, generation: int, phase: str
    ) -> ArtifactTree | None:
        """A session's own artifacts as it left them; None if its folder is gone.

        Raises:
            ArtifactError: A file in it is broken.
        """
        ...

    def write_generation_result(self, text: str, *, generation: int) -> Path:
        """Write `result.json` of a generation atomically.

        Raises:
            StoreError: It could not be written.
        """
        ...

    def write_result(self, text: str, *, generation: int, phase: str) -> Path:
        """Write `result.json` of a phase atomically and say where it is.

        Raises:
            StoreError: It could not be written.
        """
        ...

    def close(self) -> None: ...
