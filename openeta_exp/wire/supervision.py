"""What an action reviewer and a guidance agent are told and answer, as text."""

from __future__ import annotations

import json

from pydantic import JsonValue

from openeta_exp.domain.guidance import Question
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.supervision import ActionContext, ActionDecision
from openeta_exp.wire.model_json import AnswerError, the_object
from openeta_exp.wire.planner_context import observation_json

ACTION_SCHEMA = "openeta_exp.action_review.v1"
QUESTION_SCHEMA = "openeta_exp.guidance_request.v1"
MAX_REASON_CHARACTERS = 1_000
MAX_ANSWER_CHARACTERS = 2_000


class SupervisionError(ValueError):
    """The answer is not what was asked for."""


def render_action(context: ActionContext) -> str:
    """One JSON object: the task, the call, and what the host knows of the scene."""
    value: JsonObject = {
        "schema_version": ACTION_SCHEMA,
        "task": context.task,
        "answers": list[JsonValue](context.answers),
        "tool": context.tool.name,
        "tool_description": context.tool.description,
        "effect": context.tool.effect.value,
        "parameters": context.call.arguments,
        "reasoning": context.reasoning,
        "observation": observation_json(context.observation),
        "evidence": context.evidence,
    }
    return json.dumps(value)


def parse_action(text: str) -> tuple[ActionDecision, str]:
    """The decision with its reason. Anything but one of the three words is an error.

    Raises:
        SupervisionError: The answer is no decision.
    """
    fields = _object(text)
    decision = fields.get("decision")
    try:
        return ActionDecision(str(decision)), _text(fields, "reason")[:MAX_REASON_CHARACTERS]
    except ValueError as error:
        raise SupervisionError(
            f"`decision` must be approve, reject or abstain, not {decision!r}"
        ) from error


def render_question(question: Question) -> str:
    """One JSON object: the task, the question, and what was asked before."""
    value: JsonObject = {
        "schema_version": QUESTION_SCHEMA,
        "task": question.task,
        "question": question.text,
        "asked_before": list[JsonValue](question.asked),
        "observation": observation_json(question.observation),
        "host_state": question.host_state,
    }
    return json.dumps(value)


def parse_guidance(text: str) -> tuple[str | None, str]:
    """The answer, None if there is none, and the reason. An empty answer is an abstention.

    Raises:
        SupervisionError: The answer is no decision, or too long to be one.
    """
    fields = _object(text)
    reason = _text(fields, "reason")[:MAX_REASON_CHARACTERS]
    match fields.get("decision"):
        case "abstain":
            return None, reason or "guidance abstained"
        case "answer":
            answer = _text(fields, "answer").strip()
            if len(answer) > MAX_ANSWER_CHARACTERS:
                raise SupervisionError(f"an answer has at most {MAX_ANSWER_CHARACTERS} characters")
            return answer or None, reason or ("" if answer else "guidance gave an empty answer")
        case other:
            raise SupervisionError(f"`decision` must be answer or abstain, not {other!r}")


def _text(fields: JsonObject, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _object(text: str) -> JsonObject:
    try:
        return the_object(text, keys={"decision"})
    except AnswerError as error:
        raise SupervisionError(str(error)) from error
