"""The approval inbox as a folder: one file per request, one per answer."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from openeta_exp.domain.approval import ApprovalAnswer, ApprovalRequest
from openeta_exp.domain.identity import check_path_component
from openeta_exp.errors import StoreError


class FolderApprovalInbox:
    """See `ports.approvals.ApprovalInbox`.

    An answer becomes visible by a hard link, which fails where there is one already: two people,
    or a person and the clock, can never both have answered.
    """

    def __init__(self, folder: Path) -> None:
        self._pending = folder / "pending"
        self._answers = folder / "answers"

    def ask(self, request: ApprovalRequest) -> None:
        self._place(request.to_json(), self._pending / _file(request.interaction_id))

    def pending(self) -> Iterable[ApprovalRequest]:
        found = [
            request
            for path in sorted(self._pending.glob("*.json"))
            if (request := self._read_request(path)) is not None and self.answer_to(request) is None
        ]
        return sorted(found, key=lambda request: request.asked_at_s)

    def answer(self, answer: ApprovalAnswer) -> ApprovalAnswer:
        path = self._answers / _file(answer.interaction_id)
        if self._place(answer.to_json(), path):
            return answer
        return self._read_answer(path) or answer

    def answer_to(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        found = self._read_answer(self._answers / _file(request.interaction_id))
        if found is None or found.request_digest != request.content_digest:
            return None
        return found

    def withdraw(self, request: ApprovalRequest) -> None:
        path = self._pending / _file(request.interaction_id)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot be removed: {error.strerror or error}") from error

    def _place(self, text: str, path: Path) -> bool:
        """Write a new file as one step; False if it is there already."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text + "\n", encoding="utf-8")
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
        return True

    def _read_request(self, path: Path) -> ApprovalRequest | None:
        try:
            return ApprovalRequest.from_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from error

    def _read_answer(self, path: Path) -> ApprovalAnswer | None:
        try:
            return ApprovalAnswer.from_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from error


def _file(interaction_id: str) -> str:
    return f"{check_path_component(interaction_id)}.json"
