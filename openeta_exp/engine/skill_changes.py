"""Skills an agent writes within its session, by the rules of the approvement profile."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from pydantic import JsonValue

from openeta_exp.domain.artifact import Artifact, ArtifactKind
from openeta_exp.domain.candidate import Review, ReviewDecision
from openeta_exp.domain.skill import Skill, render_skill
from openeta_exp.domain.skill_change import (
    MAX_REQUEST_CHARACTERS,
    SkillChange,
    SkillRequest,
    broken_limits,
)
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult, ToolSpec, refused
from openeta_exp.engine.episode_record import EpisodeRecord
from openeta_exp.engine.offer import Offer
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.session_log import SessionLog
from openeta_exp.ports.skill_author import SkillAuthor, SkillJudge


def _spec(name: str, description: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        effect=ToolEffect.PLANNING,
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 64},
                "wish": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_REQUEST_CHARACTERS,
                    "description": "What the skill should say, and why.",
                },
            },
            "required": list[JsonValue](["name", "wish"]),
            "additionalProperties": False,
        },
    )


REGISTER = _spec("register_skill", "Have a new skill written for this session.")
UPDATE = _spec("update_skill", "Have a skill of this session rewritten.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChanges:
    """Who writes and who has to agree.

    Attributes:
        judge: None if keeping the limits is enough; the change then stays a session's own.
    """

    author: SkillAuthor
    judge: SkillJudge | None


class SkillTools:
    """The skill tools of one episode. Only the session's own copy ever changes."""

    specs = (REGISTER, UPDATE)

    def __init__(
        self,
        changes: SkillChanges,
        *,
        record: EpisodeRecord,
        log: SessionLog,
        clock: Clock,
        offer: Offer,
    ) -> None:
        self._changes = changes
        self._record = record
        self._log = log
        self._clock = clock
        self._offer = offer

    async def run(self, call: ToolCall) -> ToolResult:
        name, wish = str(call.arguments["name"]), str(call.arguments["wish"])
        current = self._offer.skill(name)
        if call.name == REGISTER.name and current is not None:
            return _refused(call, "skill_exists", f"there is a skill {name!r}: update it")
        if call.name == UPDATE.name and current is None:
            return _refused(call, "unknown_skill", f"there is no skill {name!r}: register it")
        request = SkillRequest(
            name=name,
            wish=wish,
            current=current,
            task=self._record.spec.task,
            tools=tuple(tool.name for tool in self._offer.tools),
        )
        draft = await self._changes.author.write(request)
        self._record.tokens += draft.usage
        self._record.model_requests += draft.requests
        if draft.skill is None:
            return _refused(call, "skill_draft_unusable", draft.reason)
        problems = broken_limits(draft.skill, request)
        if problems:
            return _refused(call, "skill_limits", "; ".join(problems))
        review = await self._judged(request, draft.skill)
        if review is not None and not review.approves:
            return _refused(
                call,
                "skill_change_denied",
                f"{review.reviewer}, {review.decision}: {review.reason}",
            )
        self._keep(draft.skill)
        return ToolResult(
            call=call,
            effect=ToolEffect.PLANNING,
            success=True,
            outputs={
                "name": draft.skill.name,
                "agreed_by": "limits" if review is None else review.reviewer,
                "content": draft.skill.content,
            },
        )

    async def _judged(self, request: SkillRequest, skill: Skill) -> Review | None:
        judge = self._changes.judge
        if judge is None:
            return None
        change = SkillChange(
            request=request,
            skill=skill,
            session_id=self._record.session_id,
            execution_id=self._record.execution_id,
            index=self._record.tool_calls,
            asked_at_s=self._clock.unix_s(),
        )
        waiting = (
            self._record.waiting_for_a_person(self._clock)
            if judge.is_a_person
            else contextlib.nullcontext()
        )
        with waiting:
            review = await judge.judge(change)
        self._record.tokens += review.usage
        self._record.model_requests += not judge.is_a_person
        if judge.is_a_person and review.decision is not ReviewDecision.ABSTAIN:
            self._record.human_interventions += 1
        return review

    def _keep(self, skill: Skill) -> None:
        """Through to the session's folder first: what is collected is what is on disk."""
        self._log.write(
            Artifact(kind=ArtifactKind.SKILL, name=skill.name, text=render_skill(skill))
        )
        self._offer.learn(skill)


def _refused(call: ToolCall, code: str, message: str) -> ToolResult:
    return refused(call, ToolEffect.PLANNING, code=code, message=message)
