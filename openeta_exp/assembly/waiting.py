"""`command=pending`, `approve` and `deny`: what waits for a person, over all experiments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.paused_episodes import FolderPausedEpisodes
from openeta_exp.adapters.supervision.folder_inbox import FolderApprovalInbox
from openeta_exp.domain.approval import AnsweredBy, ApprovalAnswer, ApprovalRequest
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.errors import SettingsError
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.waiting_view import waiting_json, waiting_view
from openeta_exp.settings.command import ApproveSettings, DenySettings, PendingSettings
from openeta_exp.settings.experiment import ExperimentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One experiment's questions."""

    layout: ExperimentLayout
    paused: FolderPausedEpisodes
    inbox: FolderApprovalInbox


def desks(output_root: Path) -> Iterator[Desk]:
    """Of every experiment below a root, by name.

    Raises:
        SettingsError: There is no such root, and so nothing can be said of what waits.
    """
    if not output_root.is_dir():
        raise SettingsError(
            f"output_root = {output_root}: there is no such folder; name the one that the waiting "
            "experiment writes to"
        )
    for folder in sorted((output_root.absolute() / "experiments").glob("[!.]*/")):
        layout = ExperimentLayout(folder)
        yield Desk(
            layout=layout,
            paused=FolderPausedEpisodes(layout.interactions),
            inbox=FolderApprovalInbox(layout.approvals),
        )


def pending(settings: ExperimentSettings, asked: PendingSettings) -> int:
    """List questions and calls that wait, oldest first."""
    questions: list[PausedEpisode] = []
    calls: list[tuple[str, ApprovalRequest]] = []
    for desk in desks(settings.output_root):
        questions += desk.paused.pending()
        calls += [(desk.layout.folder.name, request) for request in desk.inbox.pending()]
    console = Console()
    if asked.format == "json":
        console.text(json.dumps(waiting_json(questions, calls), indent=2) + "\n")
    else:
        console.show(waiting_view(questions, calls, now_s=SystemClock().unix_s()))
    return 0


def decide(settings: ExperimentSettings, asked: ApproveSettings | DenySettings) -> int:
    """Answer a waiting call, unless somebody has.

    Raises:
        SettingsError: No call waits under this id, or it has its answer already.
    """
    clock = SystemClock()
    for desk in desks(settings.output_root):
        for request in desk.inbox.pending():
            if request.interaction_id != asked.interaction_id:
                continue
            if request.expires_at_s < clock.unix_s():
                raise SettingsError(
                    f"interaction_id = {asked.interaction_id}: nobody waits for it any more; its "
                    "run has ended"
                )
            given = ApprovalAnswer(
                interaction_id=request.interaction_id,
                request_digest=request.content_digest,
                allowed=isinstance(asked, ApproveSettings),
                reason=asked.reason,
                by=AnsweredBy.INBOX,
                at_s=clock.unix_s(),
            )
            counts = desk.inbox.answer(given)
            if counts != given:
                raise SettingsError(_taken(asked.interaction_id, counts))
            verb = "approved" if given.allowed else "denied"
            Console().text(f"{verb} {request.kind.value} {request.name}, {asked.interaction_id}")
            return 0
    raise SettingsError(
        f"interaction_id = {asked.interaction_id}: no call waits under this id (any more); "
        "`command=pending` lists those that do"
    )


def _taken(interaction_id: str, answer: ApprovalAnswer) -> str:
    word = "approved" if answer.allowed else "denied"
    how = "when its time was up" if answer.by is AnsweredBy.TIMEOUT else f"at the {answer.by.value}"
    return f"interaction_id = {interaction_id}: was {word} {how} already"
