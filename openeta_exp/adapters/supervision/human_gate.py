"""A person at the gate: profile `human_gated`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from openeta_exp.domain.approval import (
    AnsweredBy,
    ApprovalAnswer,
    ApprovalKind,
    ApprovalRequest,
)
from openeta_exp.domain.candidate import Review, ReviewDecision
from openeta_exp.domain.skill_change import SkillChange
from openeta_exp.domain.supervision import ActionContext, ApprovementProfile, Authorization
from openeta_exp.ports.approvals import ApprovalInbox
from openeta_exp.ports.clock import Clock

POLL_S = 0.3

Prompt = Callable[[ApprovalRequest], Awaitable[tuple[bool, str]]]
"""Asks whoever sits at the terminal; may be cancelled when the answer comes from elsewhere."""

Watch = Callable[[ApprovalRequest, ApprovalAnswer | None], None]
"""Told of each question when it is asked, without an answer, and when it has its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Whoever looks into the inbox or sits at the terminal. The first answer counts.

    Attributes:
        prompt: None if nobody sits at a terminal.
        watch: None if nobody wants to know.
    """

    inbox: ApprovalInbox
    clock: Clock
    timeout_s: float
    prompt: Prompt | None = None
    watch: Watch | None = None

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Wait for an answer; when the time is up, that is the answer.

        Raises:
            StoreError: The inbox cannot be used.
        """
        self.inbox.ask(request)
        if self.watch is not None:
            self.watch(request, None)
        async with anyio.create_task_group() as group:
            if self.prompt is not None:
                group.start_soon(self._ask_terminal, self.prompt, request)
            answer = await self._wait(request)
            group.cancel_scope.cancel()
        self.inbox.withdraw(request)
        if self.watch is not None:
            self.watch(request, answer)
        return answer

    async def _wait(self, request: ApprovalRequest) -> ApprovalAnswer:
        while (answer := self.inbox.answer_to(request)) is None:
            if self.clock.unix_s() >= request.expires_at_s:
                return self._answer(request, allowed=False, by=AnsweredBy.TIMEOUT)
            await self.clock.sleep(POLL_S)
        return answer

    async def _ask_terminal(self, prompt: Prompt, request: ApprovalRequest) -> None:
        allowed, reason = await prompt(request)
        self._answer(request, allowed=allowed, by=AnsweredBy.TERMINAL, reason=reason)

    def _answer(
        self, request: ApprovalRequest, *, allowed: bool, by: AnsweredBy, reason: str = ""
    ) -> ApprovalAnswer:
        return self.inbox.answer(
            ApprovalAnswer(
                interaction_id=request.interaction_id,
                request_digest=request.content_digest,
                allowed=allowed,
                reason=reason,
                by=by,
                at_s=self.clock.unix_s(),
            )
        )


class HumanGate:
    """See `ports.supervision.ActionGate`: each world-mutating call waits for a person."""

    profile = ApprovementProfile.HUMAN_GATED

    def __init__(self, people: People) -> None:
        self._people = people

    async def authorize(self, context: ActionContext) -> Authorization:
        now_s = self._people.clock.unix_s()
        answer = await self._people.decide(
            ApprovalRequest(
                kind=ApprovalKind.TOOL_CALL,
                session_id=context.session_id,
                execution_id=context.execution_id,
                index=context.index,
                task=context.task,
                name=context.call.name,
                content=context.call.arguments,
                reasoning=context.reasoning,
                evidence=context.evidence,
                asked_at_s=now_s,
                expires_at_s=now_s + self._people.timeout_s,
            )
        )
        if answer.by is AnsweredBy.TIMEOUT:
            return Authorization(
                allowed=False,
                by="human",
                reason=f"nobody decided within {self._people.timeout_s:g} s",
                needs_human=True,
            )
        return Authorization(
            allowed=answer.allowed,
            by="human",
            reason=answer.reason or ("approved" if answer.allowed else "denied"),
        )


class HumanSkillJudge:
    """See `ports.skill_author.SkillJudge`: a person reads the change. No answer is a no."""

    is_a_person = True

    def __init__(self, people: People) -> None:
        self._people = people

    async def judge(self, change: SkillChange) -> Review:
        answer = await self._people.decide(
            ApprovalRequest(
                kind=ApprovalKind.SKILL_CHANGE,
                session_id=change.session_id,
                execution_id=change.execution_id,
                index=change.index,
                task=change.request.task,
                name=change.skill.name,
                content=change.skill.model_dump(mode="json"),
                reasoning=change.request.wish,
                evidence={},
                asked_at_s=change.asked_at_s,
                expires_at_s=self._people.clock.unix_s() + self._people.timeout_s,
            )
        )
        decision = ReviewDecision.APPROVE if answer.allowed else ReviewDecision.REJECT
        if answer.by is AnsweredBy.TIMEOUT:
            decision = ReviewDecision.ABSTAIN
        return Review(decision=decision, reason=answer.reason, reviewer="human")
