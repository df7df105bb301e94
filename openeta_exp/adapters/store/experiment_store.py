"""One experiment as a folder: journal, immutable baselines, results, sessions."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from openeta_exp.adapters.store.artifact_tree import read_tree, write_tree
from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.adapters.store.layout import ExperimentLayout, TreeFolders
from openeta_exp.adapters.store.session_log import FolderSessionLogs, Frames
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.identity import SessionId
from openeta_exp.domain.lineage import GenerationRecord, check_unchanged
from openeta_exp.errors import SettingsError, StoreError


class FolderExperimentStore:
    """See `ports.experiment_store.ExperimentStore`."""

    def __init__(self, layout: ExperimentLayout, *, frames: Frames = "none") -> None:
        """Raises: SettingsError, StoreError: As `SqliteJournal` does."""
        self._layout = layout
        self._frames: Frames = frames
        self.journal = SqliteJournal(layout.journal)

    @property
    def journal_path(self) -> Path:
        return self._layout.journal

    def begin_generation(self, record: GenerationRecord, tree: ArtifactTree) -> None:
        generation = self._layout.generation(record.generation)
        known = self.check_generation(record)
        if known is None:
            write_tree(tree, generation.baseline, durable=True)
            # Written last: a generation without it has not begun.
            _write_record(record, generation.record)
        elif record.design and not known.design:
            # So far the generation was only run.
            _write_record(record, generation.record)

    def check_generation(self, record: GenerationRecord) -> GenerationRecord | None:
        """What the generation has begun from, if it has. Writes nothing.

        Raises:
            SettingsError: Something else than `record` says, or its baseline files were changed
                since. Lists every difference.
            StoreError: It could not be read.
        """
        generation = self._layout.generation(record.generation)
        try:
            before = generation.record.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{generation.record}: cannot be read: {error.strerror}") from error
        known = self._check_unchanged(before, record, generation.record)
        kept = read_tree(generation.baseline).content_digest
        if kept != record.baseline_digest:
            raise SettingsError(
                f"{generation.folder}: the files of the baseline were changed after the generation "
                "had begun; put them back or use another experiment_id"
            )
        return known

    def _check_unchanged(self, text: str, now: GenerationRecord, path: Path) -> GenerationRecord:
        try:
            before = GenerationRecord.from_json(text)
        except ValidationError as error:
            raise SettingsError(f"{path}: is damaged: {error.errors()[0]['msg']}") from error
        check_unchanged(before, now)
        return before

    def sessions(self, *, generation: int, phase: str) -> FolderSessionLogs:
        return FolderSessionLogs(
            self._layout.generation(generation).phase(phase), frames=self._frames
        )

    def session_tree(
        self, session_id: SessionId, *, generation: int, phase: str
    ) -> ArtifactTree | None:
        folder = self._layout.generation(generation).phase(phase).session(session_id)
        return read_tree(TreeFolders.inside(folder)) if folder.is_dir() else None

    def write_generation_result(self, text: str, *, generation: int) -> Path:
        path = self._layout.generation(generation).folder / "result.json"
        write_atomically(path, text.encode("utf-8"))
        return path

    def write_result(self, text: str, *, generation: int, phase: str) -> Path:
        path = self._layout.generation(generation).phase(phase).result
        write_atomically(path, text.encode("utf-8"))
        return path

    def close(self) -> None:
        self.journal.close()


def _write_record(record: GenerationRecord, path: Path) -> None:
    write_atomically(path, record.model_dump_json(indent=2).encode("utf-8") + b"\n")
