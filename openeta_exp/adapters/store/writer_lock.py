"""One writing process per folder, whoever starts it and however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from openeta_exp.errors import SettingsError, StoreError


class WriterLock:
    """Held from construction to `release`, and given up by the kernel if the process dies.

    The file stays behind on purpose: deleting it would let two processes lock two files of the
    same name.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock at once.

        Raises:
            SettingsError: Another process writes here; the sentence names it.
            StoreError: The lock file cannot be made.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError(f"{path}: cannot be locked: {error.strerror or error}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise SettingsError(_in_use(path, owner)) from error
            raise StoreError(f"{path}: cannot be locked: {error.strerror or error}") from error
        try:
            # Padded, so that one write replaces a longer number whole.
            os.pwrite(self._descriptor, f"{os.getpid():<31}\n".encode("ascii"), 0)
        except OSError as error:
            os.close(self._descriptor)
            raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error

    def release(self) -> None:
        """Give the lock up. May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _in_use(path: Path, owner: str) -> str:
    process = f"process {owner}" if owner else "another process"
    return (
        f"{path.parent}: {process} is writing into this folder; wait until it has ended, "
        "or choose another experiment_id or output_root"
    )
