"""What a run says while it waits for a person."""

from __future__ import annotations

import io
from pathlib import Path

import anyio
import pytest

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.supervision.folder_inbox import FolderApprovalInbox
from openeta_exp.adapters.supervision.human_gate import HumanGate
from openeta_exp.assembly import people as assembled
from openeta_exp.assembly.people import people
from openeta_exp.composition import compose_settings
from openeta_exp.domain.approval import AnsweredBy, ApprovalAnswer
from openeta_exp.reporting.console import Console
from openeta_exp.settings.experiment import ExperimentSettings
from tests.approvals import proposed
from tests.manual_clock import ManualClock, SkippingClock, settle

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembled, "terminal_is_there", lambda: False)


def settings_of(root: Path, *overrides: str) -> ExperimentSettings:
    gated = ["approvement.profile=human_gated", "approvement.timeout_s=300"]
    return compose_settings([f"output_root={root}", *gated, *overrides])


async def test_whoever_watches_a_run_reads_that_it_waits_how_long_and_what_answers(
    tmp_path: Path,
) -> None:
    settings, said, clock = settings_of(tmp_path), io.StringIO(), ManualClock()
    gate = HumanGate(people(settings, clock, Console(err=said)))
    layout = ExperimentLayout.below(tmp_path, settings.experiment_id)
    inbox = FolderApprovalInbox(layout.approvals)

    async with anyio.create_task_group() as group:
        group.start_soon(gate.authorize, proposed())
        await settle()
        (waiting,) = inbox.pending()
        told = said.getvalue()
        inbox.answer(
            ApprovalAnswer(
                interaction_id=waiting.interaction_id,
                request_digest=waiting.content_digest,
                allowed=True,
                by=AnsweredBy.INBOX,
                at_s=1.0,
            )
        )
        await clock.advance(1.0)

    which = f"interaction_id={waiting.interaction_id} output_root={tmp_path}"
    assert told == (
        f"tool call {waiting.name} waits up to 300 s for a person:\n"
        f"  see it: command=pending output_root={tmp_path}\n"
        f"  answer: command=approve {which}\n"
        f"      or: command=deny {which}\n"
    )
    assert said.getvalue() == told


@pytest.mark.parametrize(
    ("overrides", "hinted"),
    [([], True), (["on_need_human=pause"], False), (["command=iterate"], False)],
)
async def test_a_question_that_nobody_answered_is_said_with_the_way_to_keep_the_episode(
    tmp_path: Path, overrides: list[str], hinted: bool
) -> None:
    settings, said = settings_of(tmp_path, *overrides), io.StringIO()

    await HumanGate(people(settings, SkippingClock(), Console(err=said))).authorize(proposed())

    (last,) = said.getvalue().splitlines()[-1:]
    assert last.startswith(f"nobody decided on tool call {proposed().call.name} within 300 s")
    assert ("on_need_human=pause keeps it until `command=resume` answers" in last) is hinted
