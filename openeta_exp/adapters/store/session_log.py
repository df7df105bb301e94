"""The private folder of each session: its trace, its copy of the artifacts, its frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from openeta_exp.adapters.store.artifact_tree import read_tree, write_tree
from openeta_exp.adapters.store.layout import PhaseLayout, TreeFolders
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.identity import SessionId
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

    def __init__(self, folder: Path, tree: ArtifactTree, *, frames: Frames) -> None:
        """Raises: StoreError: The folder already exists or cannot be written."""
        self._folder = folder
        self._frames = frames
        self._kept: set[str] = set()
        try:
            folder.mkdir(parents=True)
            self._trace = (folder / "trace.jsonl").open("xb")
        except OSError as error:
            raise self._failure(error) from error
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
