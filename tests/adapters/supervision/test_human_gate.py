"""A call waits for the first answer there is: from the inbox, from the terminal, from the clock."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest

from openeta_exp.adapters.supervision.folder_inbox import FolderApprovalInbox
from openeta_exp.adapters.supervision.human_gate import HumanGate, HumanSkillJudge, People
from openeta_exp.domain.approval import AnsweredBy, ApprovalAnswer, ApprovalRequest
from openeta_exp.domain.candidate import ReviewDecision
from openeta_exp.domain.skill_change import SkillChange
from openeta_exp.domain.supervision import Authorization
from openeta_exp.engine.subagent_eval_skills import reviewer_cases
from tests.approvals import proposed, request
from tests.manual_clock import ManualClock, SkippingClock, settle

pytestmark = pytest.mark.anyio


def answer(to: ApprovalRequest, *, allowed: bool, reason: str = "") -> ApprovalAnswer:
    return ApprovalAnswer(
        interaction_id=to.interaction_id,
        request_digest=to.content_digest,
        allowed=allowed,
        reason=reason,
        by=AnsweredBy.INBOX,
        at_s=1.0,
    )


async def test_a_call_waits_in_the_inbox_and_runs_once_a_person_says_so(tmp_path: Path) -> None:
    clock, inbox = ManualClock(), FolderApprovalInbox(tmp_path)
    gate = HumanGate(People(inbox=inbox, clock=clock, timeout_s=300.0))
    given: list[Authorization] = []

    async def ask() -> None:
        given.append(await gate.authorize(proposed()))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await settle()
        (waiting,) = inbox.pending()
        assert given == []
        inbox.answer(answer(waiting, allowed=True, reason="looks right"))
        await clock.advance(1.0)

    assert given == [Authorization(allowed=True, by="human", reason="looks right")]
    assert list(inbox.pending()) == []


async def test_silence_becomes_a_need_for_a_person_and_a_late_answer_changes_nothing(
    tmp_path: Path,
) -> None:
    inbox = FolderApprovalInbox(tmp_path)
    seen: list[ApprovalRequest] = []
    clock = SkippingClock()

    given = await HumanGate(
        People(inbox=_Watched(inbox, seen), clock=clock, timeout_s=5.0)
    ).authorize(proposed())
    counts = inbox.answer(answer(seen[0], allowed=True))

    assert given.needs_human
    assert not given.allowed
    assert (counts.by, counts.allowed) == (AnsweredBy.TIMEOUT, False)


class _Watched:
    """An inbox that tells what it was asked."""

    def __init__(self, inbox: FolderApprovalInbox, seen: list[ApprovalRequest]) -> None:
        self._inbox = inbox
        self._seen = seen
        self.pending = inbox.pending
        self.answer = inbox.answer
        self.answer_to = inbox.answer_to
        self.withdraw = inbox.withdraw

    def ask(self, request: ApprovalRequest) -> None:
        self._seen.append(request)
        self._inbox.ask(request)


async def test_the_terminal_answers_with_a_reason(tmp_path: Path) -> None:
    async def prompt(asked: ApprovalRequest) -> tuple[bool, str]:
        return False, "too close to the rim"

    people = People(
        inbox=FolderApprovalInbox(tmp_path), clock=SkippingClock(), timeout_s=5.0, prompt=prompt
    )

    given = await HumanGate(people).authorize(proposed())

    assert given == Authorization(allowed=False, by="human", reason="too close to the rim")


async def test_an_answer_to_another_call_is_none(tmp_path: Path) -> None:
    inbox = FolderApprovalInbox(tmp_path)
    first, second = request(1), request(2)
    inbox.ask(first)
    inbox.ask(second)
    inbox.answer(answer(first, allowed=True))
    forged = answer(first, allowed=True).model_copy(
        update={"interaction_id": second.interaction_id}
    )

    inbox.answer(forged)

    assert first.interaction_id != second.interaction_id
    assert inbox.answer_to(first) is not None
    assert inbox.answer_to(second) is None


def test_of_many_people_who_answer_at_once_exactly_one_is_heard(tmp_path: Path) -> None:
    inbox, asked = FolderApprovalInbox(tmp_path), request()
    inbox.ask(asked)
    ready = threading.Barrier(8)
    counted: list[ApprovalAnswer] = []

    def person(number: int) -> None:
        ready.wait()
        counted.append(inbox.answer(answer(asked, allowed=bool(number % 2), reason=str(number))))

    people = [threading.Thread(target=person, args=(number,)) for number in range(8)]
    for each in people:
        each.start()
    for each in people:
        each.join()

    assert len({each.reason for each in counted}) == 1
    assert inbox.answer_to(asked) == counted[0]
    assert sorted(path.name for path in (tmp_path / "answers").iterdir()) == [
        f"{asked.interaction_id}.json"
    ]


async def test_nobody_agreeing_to_a_skill_change_is_no_agreement(tmp_path: Path) -> None:
    change = next(reviewer_cases()).asked
    assert isinstance(change, SkillChange)
    people = People(inbox=FolderApprovalInbox(tmp_path), clock=SkippingClock(), timeout_s=5.0)

    review = await HumanSkillJudge(people).judge(change)

    assert review.decision is ReviewDecision.ABSTAIN
    assert not review.approves
