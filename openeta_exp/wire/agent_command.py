"""A model's text <-> a `Decision` (`openeta.agent_command.v1`)."""

from __future__ import annotations

import json
from typing import assert_never

from pydantic import JsonValue

from openeta_exp.domain.decision import AskHuman, CallTools, Decision, Finish, Talk
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.tool import ToolCall
from openeta_exp.wire.model_json import AnswerError, objects_with

SCHEMA_VERSION = "openeta.agent_command.v1"

_FINISH = frozenset({"task_complete", "done", "finish"})
_KEYS = frozenset({"decision", "action", "calls", "name", "tool", "skill"})
"""Every command has one of them."""


class CommandError(ValueError):
    """The text is not a command.

    Attributes:
        problems: What to tell the model, one sentence each.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def render_command(decision: Decision) -> str:
    """The one form in which this package writes a decision."""
    match decision:
        case CallTools(calls=(call,)):
            name, parameters = call.name, call.arguments
        case CallTools(calls=calls):
            each: list[JsonValue] = [
                {"name": call.name, "parameters": call.arguments} for call in calls
            ]
            return json.dumps({"kind": "tool_call", "calls": each, "reasoning": decision.reasoning})
        case AskHuman(question=question):
            return _response("ask_human", {"question": question}, decision.reasoning)
        case Talk(message=message):
            return _response("talk", {"message": message}, decision.reasoning)
        case Finish(claims_success=claims_success):
            return _response("task_complete", {"success": claims_success}, decision.reasoning)
        case _:
            assert_never(decision)
    return json.dumps(
        {
            "kind": "tool_call",
            "name": name,
            "parameters": parameters,
            "reasoning": decision.reasoning,
        }
    )


def _response(name: str, parameters: JsonObject, reasoning: str) -> str:
    return json.dumps(
        {"kind": "response", "name": name, "parameters": parameters, "reasoning": reasoning}
    )


def parse_command(text: str) -> Decision:
    """Read a model's answer: one JSON object; thoughts, code fences and prose are tolerated.

    The last object that looks like a command is it. One before it may be a thought, unless it is
    a command as well: which of two to carry out is never guessed.

    Understands the aliases models use: `decision`/`action` as wrapper, `action_type`/`type` for
    `kind`, `tool`/`skill`/`action` for `name`, `arguments` for `parameters`, `reason` for
    `reasoning`, and a `calls` list for a batch.

    Raises:
        CommandError: With every reason found.
    """
    try:
        *others, meant = objects_with(text, keys=_KEYS)
    except AnswerError as error:
        raise CommandError(str(error)) from error
    decision = _command(meant)
    for other in others:
        if _is_another(other, decision):
            raise CommandError(
                "the answer holds different commands, and only one can be carried out: "
                "answer with exactly one JSON object"
            )
    return decision


def _is_another(fields: JsonObject, decision: Decision) -> bool:
    """Whether they are a command that does something else than what was decided."""
    try:
        other = _command(fields)
    except CommandError:
        return False
    blank = {"reasoning": ""}
    return other.model_copy(update=blank) != decision.model_copy(update=blank)


def _command(answer: JsonObject) -> Decision:
    """Raises: CommandError."""
    fields = _unwrap(answer)
    kind = _first(fields, "kind", "action_type", "type")
    reasoning = str(_first(fields, "reasoning", "reason") or "")
    if isinstance(fields.get("calls"), list):
        return _batch(fields["calls"], reasoning)
    name = _first(fields, "name", "tool", "skill", "action")
    if not isinstance(name, str) or not name.strip():
        raise CommandError("`name` is missing: give the tool or response to use")
    parameters = _first(fields, "parameters", "arguments")
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, dict):
        raise CommandError("`parameters` must be a JSON object")
    if kind not in ("tool_call", "response", None):
        raise CommandError(f"`kind` must be tool_call or response, not {kind!r}")
    return _decide(kind, name.strip(), parameters, reasoning)


def _decide(kind: JsonValue, name: str, parameters: JsonObject, reasoning: str) -> Decision:
    if name in _FINISH:
        claim = parameters.get("success", True)
        return Finish(claims_success=claim is not False, reasoning=reasoning)
    if name == "ask_human":
        question = parameters.get("question") or parameters.get("message") or reasoning
        if not isinstance(question, str) or not question.strip():
            raise CommandError("`ask_human` needs a `question`")
        return AskHuman(question=question, reasoning=reasoning)
    if name == "talk":
        return Talk(message=str(parameters.get("message", reasoning)), reasoning=reasoning)
    if kind == "response":
        raise CommandError(
            f"`{name}` is no response; use ask_human, talk or task_complete, or kind tool_call"
        )
    return CallTools(calls=(ToolCall(name=name, arguments=parameters),), reasoning=reasoning)


def _batch(rows: JsonValue, reasoning: str) -> CallTools:
    calls: list[ToolCall] = []
    problems: list[str] = []
    assert isinstance(rows, list)
    for at, row in enumerate(rows):
        fields = row if isinstance(row, dict) else {}
        name = _first(fields, "name", "tool", "action")
        parameters = _first(fields, "parameters", "arguments")
        if not isinstance(name, str) or not name.strip():
            problems.append(f"calls[{at}] needs a `name`")
        elif parameters is not None and not isinstance(parameters, dict):
            problems.append(f"calls[{at}].parameters must be a JSON object")
        else:
            calls.append(ToolCall(name=name.strip(), arguments=parameters or {}))
    if not rows:
        problems.append("`calls` is empty")
    if problems:
        raise CommandError(*problems)
    return CallTools(calls=tuple(calls), reasoning=reasoning)


def _unwrap(fields: JsonObject) -> JsonObject:
    for key in ("decision", "action"):
        inner = fields.get(key)
        if isinstance(inner, dict):
            return inner
    return fields


def _first(fields: JsonObject, *keys: str) -> JsonValue:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)
