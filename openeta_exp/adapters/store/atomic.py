"""Files that are either the old ones or the new ones, never half of each."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from openeta_exp.errors import StoreError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as one step that survives a power cut. Makes missing folders.

    Raises:
        StoreError: The old file, if there was one, is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_through(temporary, content)
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error


def _write_through(path: Path, content: bytes) -> None:
    # Not `tempfile`: that makes files only their owner can read, and results are there to share.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
