"""Episodes that wait for a person, as files: `pending/` and, once answered, `claimed/`."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.domain.guidance import AnsweredQuestion
from openeta_exp.domain.identity import check_path_component
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.errors import SettingsError, StoreError


class FolderPausedEpisodes:
    """See `ports.interactions.PausedEpisodes`. One file per session, named by it.

    A claimed file is complete from its first moment, answer included: a process that dies while
    it claims leaves the question pending, or answered, or both, and never an answer lost.
    """

    def __init__(self, folder: Path) -> None:
        self._pending = folder / "pending"
        self._claimed = folder / "claimed"

    def keep(self, paused: PausedEpisode) -> None:
        _write(self._pending / _file(paused), paused)

    def pending(self) -> Iterable[PausedEpisode]:
        claimed = {each.interaction.interaction_id for each in self.claimed()}
        return [
            each
            for each in _read_all(self._pending)
            if each.interaction.interaction_id not in claimed
        ]

    def claimed(self) -> Iterable[PausedEpisode]:
        return _read_all(self._claimed)

    def claim(self, paused: PausedEpisode, answer: AnsweredQuestion) -> PausedEpisode:
        pending, claimed = self._pending / _file(paused), self._claimed / _file(paused)
        answered = paused.model_copy(update={"answer": answer})
        draft = claimed.with_name(f".{uuid.uuid4().hex}.tmp")
        _write(draft, answered)
        try:
            if not pending.exists():
                raise FileExistsError
            os.link(draft, claimed)
            pending.unlink(missing_ok=True)
        except FileExistsError as error:
            raise SettingsError(
                f"interaction_id = {paused.interaction.interaction_id}: somebody else has just "
                "answered it"
            ) from error
        except OSError as error:
            raise StoreError(f"{claimed}: cannot be written: {error.strerror or error}") from error
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        return answered

    def answer(self, paused: PausedEpisode, answer: AnsweredQuestion) -> PausedEpisode:
        answered = paused.model_copy(update={"answer": answer})
        _write(self._claimed / _file(paused), answered)
        return answered

    def done(self, paused: PausedEpisode) -> None:
        path = self._claimed / _file(paused)
        try:
            if paused.interaction.interaction_id in self._stale():
                (self._pending / _file(paused)).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot be removed: {error.strerror or error}") from error

    def _stale(self) -> set[str]:
        """Questions that were claimed by a process that died before it removed the pending file."""
        claimed = {each.interaction.interaction_id for each in self.claimed()}
        pending = {each.interaction.interaction_id for each in _read_all(self._pending)}
        return claimed & pending


def _file(paused: PausedEpisode) -> str:
    return f"{check_path_component(paused.outcome.session_id)}.json"


def _write(path: Path, paused: PausedEpisode) -> None:
    write_atomically(path, paused.model_dump_json(indent=2).encode("utf-8") + b"\n")


def _read_all(folder: Path) -> list[PausedEpisode]:
    found = [_read(path) for path in sorted(folder.glob("[!.]*.json"))]
    return sorted(
        (each for each in found if each is not None), key=lambda paused: paused.created_at_s
    )


def _read(path: Path) -> PausedEpisode | None:
    """Raises: SettingsError: The file is no record of a paused episode."""
    try:
        return PausedEpisode.from_json(path.read_bytes())
    except FileNotFoundError:
        return None  # It was claimed or finished while the folder was read.
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        raise SettingsError(
            f"{path}: is no record of a paused episode: {error.errors()[0]['msg']}"
        ) from error
