"""`command=pending`, `approve` and `deny` find what waits, wherever it waits."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.paused_episodes import FolderPausedEpisodes
from openeta_exp.adapters.supervision.folder_inbox import FolderApprovalInbox
from openeta_exp.assembly import execute
from openeta_exp.composition import compose_settings
from openeta_exp.domain.approval import AnsweredBy, ApprovalRequest
from openeta_exp.errors import SettingsError
from tests.approvals import request
from tests.pauses import QUESTION, paused


def asked(root: Path, experiment_id: str = "one") -> tuple[FolderApprovalInbox, ApprovalRequest]:
    inbox = FolderApprovalInbox(ExperimentLayout.below(root, experiment_id).approvals)
    waiting = request().model_copy(update={"expires_at_s": time.time() + 300})
    inbox.ask(waiting)
    return inbox, waiting


def command(root: Path, *overrides: str) -> int:
    return execute(compose_settings([f"output_root={root}", *overrides]))


def test_what_waits_is_listed_over_all_experiments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, waiting = asked(tmp_path)
    FolderPausedEpisodes(ExperimentLayout.below(tmp_path, "two").interactions).keep(paused())

    command(tmp_path, "command=pending", "format=json")

    listed = json.loads(capsys.readouterr().out)
    assert [each["interaction_id"] for each in listed["approvals"]] == [waiting.interaction_id]
    assert [each["question"] for each in listed["questions"]] == [QUESTION]


def test_the_table_says_how_to_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, waiting = asked(tmp_path)

    command(tmp_path, "command=pending")

    shown = capsys.readouterr().out
    assert f"interaction_id={waiting.interaction_id}" in shown
    assert "move_to" in shown


def test_nothing_waiting_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(tmp_path, "command=pending")

    assert capsys.readouterr().out == "nothing waits for a person\n"


@pytest.mark.parametrize(("verb", "allowed"), [("approve", True), ("deny", False)])
def test_a_call_is_approved_or_denied_with_a_reason(
    tmp_path: Path, verb: str, allowed: bool
) -> None:
    inbox, waiting = asked(tmp_path)

    command(
        tmp_path,
        f"command={verb}",
        f"interaction_id={waiting.interaction_id}",
        "reason=Not now, the rim is close",
    )

    answer = inbox.answer_to(waiting)
    assert answer is not None
    assert (answer.allowed, answer.reason) == (allowed, "Not now, the rim is close")
    assert answer.by is AnsweredBy.INBOX


def test_a_second_decision_an_unknown_id_and_an_ended_run_are_refused(tmp_path: Path) -> None:
    inbox, waiting = asked(tmp_path)
    late = request(2)
    inbox.ask(late)
    approve = ("command=approve", f"interaction_id={waiting.interaction_id}")
    command(tmp_path, *approve)

    with pytest.raises(SettingsError, match="no call waits under this id"):
        command(tmp_path, *approve)
    with pytest.raises(SettingsError, match="no call waits under this id"):
        command(tmp_path, "command=deny", "interaction_id=approval-0")
    with pytest.raises(SettingsError, match="its run has ended"):
        command(tmp_path, "command=approve", f"interaction_id={late.interaction_id}")


def test_resuming_what_never_paused_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has no pending question"):
        command(tmp_path, "command=resume", "session_id=one-1", "interaction_id=i", "answer=yes")
