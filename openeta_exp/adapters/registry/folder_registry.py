"""A registry as a folder that experiments and people share.

<root>/
  history.jsonl      every move of an alias, appended; the truth
  aliases.json       what the history adds up to, for people; written anew after each move
  entries/<digest>/
    <name>.json|.md  the artifact, byte for byte
    entry.json       the same with its evidence
  lock

An entry is written before the move that points to it, and moves that belong together are one
write. So a process that dies in between leaves at most an entry that nothing points to, which
the same publication finds again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pydantic import JsonValue, ValidationError

from openeta_exp.domain.artifact import SUFFIX, ArtifactKind, ArtifactTree
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.publication import (
    Alias,
    AliasMove,
    Publication,
    Receipt,
    RegistryEntry,
    Ruling,
    admit,
    family_of,
    nothing_published,
    shelf,
    unknown_name,
    withdraw,
)
from openeta_exp.errors import ArtifactError, StoreError

WriteAtomically = Callable[[Path, bytes], None]
_POLL_S = 0.02


class FolderRegistry:
    """See `ports.registry.Registry`; shared by processes through a lock of the operating system."""

    def __init__(
        self, root: Path, *, write_atomically: WriteAtomically, patience_s: float = 10.0
    ) -> None:
        """
        Args:
            write_atomically: Replaces a file as one durable step.
            patience_s: How long to wait for other processes.
        """
        self.root = root
        self._write = write_atomically
        self._patience_s = patience_s
        self._history = root / "history.jsonl"
        self._entries = root / "entries"

    def check(self) -> None:
        """Make the folder and lock it once, before work is spent on what is to be published.

        Raises:
            StoreError: Nothing could be published here.
        """
        with self._locked():
            self._moves()

    def publish(self, publication: Publication, *, at_s: float) -> Receipt:
        kind, family = publication.artifact.kind, publication.family
        with self._locked():
            moves, named = self._moves(), self._named(kind)
            ruling = admit(
                publication,
                now=shelf(moves, kind=kind, family=family),
                entries=named,
                at_s=at_s,
            )
            if ruling.moves and publication.artifact.name not in named:
                self._keep(RegistryEntry(publication=publication, published_at_s=at_s))
            self._record(moves, ruling)
        return ruling.receipt

    def roll_back(self, kind: ArtifactKind, name: str, *, reason: str, at_s: float) -> Receipt:
        # Asked before the lock, which would make a registry of any folder.
        if not self._moves():
            raise nothing_published(str(self.root))
        with self._locked():
            moves, named = self._moves(), self._named(kind)
            if name not in named:
                raise unknown_name(name, named)
            artifact = named[name].artifact
            ruling = withdraw(
                artifact,
                now=shelf(moves, kind=kind, family=family_of(artifact)),
                reason=reason,
                at_s=at_s,
            )
            self._record(moves, ruling)
        return ruling.receipt

    def validated(self) -> ArtifactTree:
        # A reader needs no lock: what a move points to was there before it.
        moves = self.history()
        families = sorted({(move.kind, move.family) for move in moves})
        pointed = [shelf(moves, kind=kind, family=name).validated for kind, name in families]
        return ArtifactTree(
            artifacts=tuple(
                self._read(self._entries / digest).artifact
                for digest in pointed
                if digest is not None
            )
        )

    def history(self) -> tuple[AliasMove, ...]:
        return self._moves()

    def _moves(self) -> tuple[AliasMove, ...]:
        try:
            content = self._history.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise self._unreadable(self._history, error) from error
        # What comes after the last line's end was being written when a process died.
        lines = content.split(b"\n")[:-1]
        try:
            return tuple(AliasMove.from_json(line) for line in lines)
        except ValidationError as error:
            raise StoreError(
                f"{self._history}: is damaged: {error.errors()[0]['msg']}; put back a copy of it"
            ) from error

    def _named(self, kind: ArtifactKind) -> dict[str, RegistryEntry]:
        """Entries of one kind by name."""
        try:
            folders = sorted(self._entries.iterdir()) if self._entries.is_dir() else []
        except OSError as error:
            raise self._unreadable(self._entries, error) from error
        entries = [self._read(folder) for folder in folders if (folder / "entry.json").is_file()]
        return {each.artifact.name: each for each in entries if each.artifact.kind is kind}

    def _read(self, folder: Path) -> RegistryEntry:
        """Raises: StoreError, and ArtifactError if the artifact is no longer what it was."""
        try:
            entry = RegistryEntry.from_json((folder / "entry.json").read_bytes())
            content = (folder / _file_name(entry)).read_bytes()
        except OSError as error:
            raise self._unreadable(folder, error) from error
        except ValidationError as error:
            raise StoreError(f"{folder}: is damaged: {error.errors()[0]['msg']}") from error
        if content != entry.artifact.text.encode("utf-8") or entry.content_digest != folder.name:
            raise ArtifactError(f"{folder}: was changed after it had been published; put it back")
        return entry

    def _keep(self, entry: RegistryEntry) -> None:
        folder = self._entries / entry.content_digest
        if (folder / "entry.json").is_file():
            return
        self._write(folder / _file_name(entry), entry.artifact.text.encode("utf-8"))
        # Last: a folder without it is no entry.
        self._write(folder / "entry.json", entry.model_dump_json(indent=2).encode("utf-8") + b"\n")

    def _record(self, moves: Sequence[AliasMove], ruling: Ruling) -> None:
        if not ruling.moves:
            return
        lines = "".join(move.to_json() + "\n" for move in ruling.moves).encode("utf-8")
        try:
            descriptor = os.open(self._history, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            with open(descriptor, "r+b") as file:
                content = file.read()
                # Half a line of a process that died would spoil the whole one after it.
                end = content.rfind(b"\n") + 1
                file.truncate(end)
                file.seek(end)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(
                f"{self._history}: cannot be written: {error.strerror or error}"
            ) from error
        shown = _aliases((*moves, *ruling.moves))
        self._write(self.root / "aliases.json", json.dumps(shown, indent=2).encode("utf-8") + b"\n")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among processes and threads; the kernel gives the lock up if we die."""
        path = self.root / "lock"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError(f"{path}: cannot be locked: {error.strerror or error}") from error
        try:
            self._wait_for(descriptor, path)
            yield
        finally:
            os.close(descriptor)

    def _wait_for(self, descriptor: int, path: Path) -> None:
        until_s = time.monotonic() + self._patience_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= until_s:
                    raise StoreError(
                        f"{path}: another process has held the registry for more than "
                        f"{self._patience_s:g} s; the same command tries again"
                    ) from error
                time.sleep(_POLL_S)
            except OSError as error:
                raise StoreError(f"{path}: cannot be locked: {error.strerror or error}") from error
            else:
                return

    @staticmethod
    def _unreadable(path: Path, error: OSError) -> StoreError:
        return StoreError(f"{path}: cannot be read: {error.strerror or error}")


def _file_name(entry: RegistryEntry) -> str:
    return f"{entry.artifact.name}{SUFFIX[entry.artifact.kind]}"


def _aliases(moves: Sequence[AliasMove]) -> dict[str, JsonValue]:
    """Kind and family to what each alias points to."""
    shown: dict[str, JsonValue] = {}
    for kind, family in sorted({(move.kind, move.family) for move in moves}):
        now = shelf(moves, kind=kind, family=family)
        rolled_back: list[Digest] = list(dict.fromkeys(now.rolled_back))
        shown[f"{kind}/{family}"] = {
            Alias.VALIDATED: now.validated,
            Alias.CANDIDATE: now.candidate,
            Alias.ROLLED_BACK: list[JsonValue](rolled_back),
        }
    return shown
