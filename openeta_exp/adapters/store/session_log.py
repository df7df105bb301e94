"""The private folder of each session: its trace, its copy of the artifacts, its frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from openeta_exp.adapters.store.artifact_tree import read_tree, write_tree
from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.adapters.store.layout import PhaseLayout, TreeFolders
from openeta_exp.domain.artifact import Artifact, ArtifactTree
from openeta_exp.domain.identity import SessionId
from openeta_exp.domain.memory import SessionMemory
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.trace import TurnTrace
from openeta_exp.errors import StoreError

Frames = Literal["none", "all"]
"""Whether the images of a session are kept. A 100-turn episode with two 256 px cameras is 30 MB."""


class FolderSessionLog:
    """One session as a folder.

    Lines reach the kernel as they are written, so they survive `kill -9`; nothing waits for the
    disk, because a trace explains a verdict and is not the verdict.
    """

    def __init__(self, folder: Path, tree: ArtifactTree | None, *, frames: Frames) -> None:
        """
        Args:
            tree: What a new session starts from; None goes on with the session that is there.

        Raises:
            StoreError: The folder exists although it should not, or does not although it should,
                or cannot be written.
        """
        self._folder = folder
        self._frames = frames
        self._kept: set[str] = set()
        try:
            if tree is not None:
                folder.mkdir(parents=True)
            self._trace = (folder / "trace.jsonl").open("ab" if tree is None else "xb")
        except OSError as error:
            raise self._failure(error) from error
        if tree is not None:
            write_tree(tree, TreeFolders.inside(folder), durable=False)

    def turn(self, trace: TurnTrace, *, views: Iterable[Observation] = ()) -> None:
        try:
            if self._frames == "all":
                for view in views:
                    self._keep(view)
            self._trace.write(trace.to_json().encode("utf-8") + b"\n")
            self._trace.flush()
        except OSError as error:
            raise self._failure(error) from error

    def tree(self) -> ArtifactTree:
        return read_tree(TreeFolders.inside(self._folder))

    def write(self, artifact: Artifact) -> None:
        write_tree(
            ArtifactTree(artifacts=(artifact,)), TreeFolders.inside(self._folder), durable=True
        )

    def memory(self) -> SessionMemory:
        path = self._folder / "memory.json"
        try:
            return SessionMemory.from_json(path.read_bytes())
        except FileNotFoundError:
            return SessionMemory()
        except (OSError, ValidationError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from error

    def keep_memory(self, memory: SessionMemory) -> None:
        write_atomically(self._folder / "memory.json", memory.to_json().encode("utf-8") + b"\n")

    def sandbox(self) -> Path:
        folder = self._folder / "sandbox"
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise self._failure(error) from error
        return folder

    def close(self) -> None:
        try:
            self._trace.close()
        except OSError as error:
            raise self._failure(error) from error

    def _keep(self, view: Observation) -> None:
        """Store each image once, named by its content like the trace names it."""
        folder = self._folder / "artifacts"
        folder.mkdir(exist_ok=True)
        for frame in view.cameras:
            if frame.rgb_sha256 in self._kept:
                continue
            self._kept.add(frame.rgb_sha256)
            (folder / f"{frame.rgb_sha256}.rgb.png").write_bytes(frame.rgb_png)
            if frame.depth_png is not None:
                (folder / f"{frame.rgb_sha256}.depth.png").write_bytes(frame.depth_png)

    def _failure(self, error: OSError) -> StoreError:
        return StoreError(f"{self._folder}: cannot be written: {error.strerror or error}")


class FolderSessionLogs:
    """The sessions of one phase."""

    def __init__(self, phase: PhaseLayout, *, frames: Frames) -> None:
        self._phase = phase
        self._frames = frames

    def open(self, session_id: SessionId, tree: ArtifactTree) -> FolderSessionLog:
        return FolderSessionLog(self._phase.session(session_id), tree, frames=self._frames)

    def reopen(self, session_id: SessionId) -> FolderSessionLog:
        return FolderSessionLog(self._phase.session(session_id), None, frames=self._frames)
