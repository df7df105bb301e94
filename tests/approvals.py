"""Calls that wait for a person."""

from __future__ import annotations

from dataclasses import replace

from openeta_exp.domain.approval import ApprovalKind, ApprovalRequest
from openeta_exp.domain.supervision import ActionContext
from openeta_exp.engine.subagent_eval_actions import action_cases


def proposed(index: int = 1) -> ActionContext:
    asked = next(action_cases()).asked
    assert isinstance(asked, ActionContext)
    return replace(asked, index=index)


def request(index: int = 1) -> ApprovalRequest:
    context = proposed(index)
    return ApprovalRequest(
        kind=ApprovalKind.TOOL_CALL,
        session_id=context.session_id,
        execution_id=context.execution_id,
        index=index,
        task=context.task,
        name=context.call.name,
        content=context.call.arguments,
        reasoning=context.reasoning,
        evidence=context.evidence,
        asked_at_s=0.0,
        expires_at_s=300.0,
    )
