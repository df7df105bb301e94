"""The private record of one episode attempt."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from openeta_exp.domain.artifact import Artifact, ArtifactTree
from openeta_exp.domain.identity import SessionId
from openeta_exp.domain.memory import SessionMemory
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.trace import TurnTrace


class SessionLog(Protocol):
    """What one session leaves behind. Owned by one episode."""

    def turn(self, trace: TurnTrace, *, views: Iterable[Observation] = ()) -> None:
        """Append one turn. The pixels of `views` are kept only if frames were asked for.

        Raises:
            StoreError: It could not be written.
            ValueError: The log is already closed.
        """
        ...

    def tree(self) -> ArtifactTree:
        """The session's own copy of what it started from, as it is now.

        Raises:
            ArtifactError: A file in it is broken.
        """
        ...

    def write(self, artifact: Artifact) -> None:
        """Change the session's own copy, and nothing else.

        Raises:
            StoreError: It could not be written.
            ArtifactError: The name cannot name a file.
        """
        ...

    def memory(self) -> SessionMemory:
        """What the session keeps; empty if it kept nothing yet.

        Raises:
            StoreError: It cannot be read.
        """
        ...

    def keep_memory(self, memory: SessionMemory) -> None:
        """Replace what the session keeps, whole or not at all.

        Raises:
            StoreError: It could not be written.
        """
        ...

    def sandbox(self) -> Path:
        """The only folder the session's Python may touch; made if it is not there.

        Raises:
            StoreError: It cannot be made.
        """
        ...

    def close(self) -> None:
        """May be called again; only the first call does something."""
        ...


class SessionLogs(Protocol):
    """Opens the record of each session of one batch. May be shared by any number of episodes."""

    def open(self, session_id: SessionId, tree: ArtifactTree) -> SessionLog:
        """Start a session with its own copy of the tree.

        Raises:
            StoreError: It could not be written, or the session already exists.
            ValueError: The id cannot name a directory.
        """
        ...

    def reopen(self, session_id: SessionId) -> SessionLog:
        """Go on with a session that has ended, with its own tree and memory.

        Raises:
            StoreError: It is not there or cannot be written.
            ValueError: The id cannot name a directory.
        """
        ...
