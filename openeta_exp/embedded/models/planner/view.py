"""A conversation as the planner sees it: what it was told, and what its calls did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from openeta_exp.domain.decision import CallTools
from openeta_exp.domain.grasp_strategy import GraspStrategy
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.tool import ToolCall
from openeta_exp.embedded.models.planner.mark import Mark, read_mark
from openeta_exp.embedded.models.planner.messages import (
    LastMessage,
    OfferedTool,
    PastMessage,
    Result,
)
from openeta_exp.wire.agent_command import CommandError, parse_command
from openeta_exp.wire.planner_context import SKILL_HEADING, STRATEGIES_HEADING, TOOLS_HEADING

_ANSWERS = ("guidance:", "human:")
"""How the host words an answer to a question, by who gave it."""


class ContextError(ValueError):
    """The messages are not a planner's context. Says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A call of an earlier turn.

    Attributes:
        success: False also if the host never said what the call did.
    """

    call: ToolCall
    success: bool
    outputs: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTurn:
    """A turn in which tools were called."""

    mark: Mark
    calls: tuple[PastCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool on offer.

    Attributes:
        required: Names of the arguments it cannot do without.
    """

    mutates_world: bool
    required: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything the planner knows at this turn.

    Attributes:
        skills: Name and text, in the order of the context.
        turns: Earlier turns of its own making, oldest first.
        is_whole: False if the conversation begins with a note that earlier turns are missing.
        guidance: Answers to its questions, newest first.
        candidate_id: Active grasp candidate, kept by the host.
        solved: What the environment says about success; None if it says nothing.
    """

    instruction: str
    turn: int
    tools: dict[str, Tool]
    skills: tuple[tuple[str, str], ...]
    strategies: tuple[GraspStrategy, ...]
    turns: tuple[PastTurn, ...]
    is_whole: bool
    guidance: tuple[str, ...]
    eef_xyz_m: tuple[float, float, float]
    gripper_openness: float
    candidate_id: str | None
    solved: bool | None


def read_view(messages: Sequence[ModelMessage]) -> View:
    """Raises: ContextError."""
    system = "\n\n".join(message.text for message in messages if message.role == "system")
    users = [message for message in messages if message.role == "user"]
    if not users:
        raise ContextError("there is no user message")
    try:
        last = LastMessage.model_validate_json(users[-1].text)
    except ValidationError as error:
        raise ContextError(f"the last user message is not a planner context: {error}") from error
    sections = _sections(system)
    now = last.tool_context
    candidate = now.host_state.active_grasp_candidate
    return View(
        instruction=last.instruction,
        turn=now.turn,
        tools=_tools(sections),
        skills=tuple(
            (title.removeprefix(SKILL_HEADING).strip(), text)
            for title, text in sections
            if title.startswith(SKILL_HEADING)
        ),
        strategies=_strategies(sections),
        turns=_turns(messages, now),
        is_whole=users[0].text.lstrip().startswith("{"),
        guidance=_guidance([*(_past(user.text) for user in users[:-1]), now]),
        eef_xyz_m=now.observation.robot.eef_xyz_m,
        gripper_openness=now.observation.robot.gripper_openness,
        candidate_id=candidate.id if candidate is not None else None,
        solved=now.host_state.environment.success,
    )


def _sections(system: str) -> list[tuple[str, str]]:
    """The parts of the system message by their headings; the prompt has the empty title."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in system.splitlines():
        if line in (TOOLS_HEADING, STRATEGIES_HEADING) or line.startswith(SKILL_HEADING):
            sections.append((line, []))
        else:
            sections[-1][1].append(line)
    return [(title, "\n".join(lines)) for title, lines in sections]


def _tools(sections: list[tuple[str, str]]) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for line in _lines(sections, TOOLS_HEADING):
        try:
            tool = OfferedTool.model_validate_json(line)
        except ValidationError:
            continue
        required = tool.parameters.get("required")
        names = required if isinstance(required, list) else []
        tools[tool.name] = Tool(
            mutates_world=tool.effect == "world_mutating",
            required=tuple(name for name in names if isinstance(name, str)),
        )
    return tools


def _strategies(sections: list[tuple[str, str]]) -> tuple[GraspStrategy, ...]:
    found: list[GraspStrategy] = []
    for line in _lines(sections, STRATEGIES_HEADING):
        try:
            found.append(GraspStrategy.model_validate_json(line))
        except ValidationError:
            continue
    return tuple(found)


def _lines(sections: list[tuple[str, str]], title: str) -> list[str]:
    return [line for name, text in sections if name == title for line in text.splitlines() if line]


def _turns(messages: Sequence[ModelMessage], now: PastMessage) -> tuple[PastTurn, ...]:
    """Pair every command of ours with the results in the user message that follows it."""
    turns: list[PastTurn] = []
    command: CallTools | None = None
    last = max(at for at, message in enumerate(messages) if message.role == "user")
    for at, message in enumerate(messages):
        if message.role == "assistant":
            command = _command(message.text)
        elif message.role == "user" and command is not None:
            mark = read_mark(command.reasoning)
            if mark is not None:
                results = now.results if at == last else _past(message.text).results
                turns.append(PastTurn(mark=mark, calls=_paired(command, results)))
            command = None
    return tuple(turns)


def _command(text: str) -> CallTools | None:
    try:
        decision = parse_command(text)
    except CommandError:
        return None
    return decision if isinstance(decision, CallTools) else None


def _past(text: str) -> PastMessage:
    try:
        return PastMessage.model_validate_json(text)
    except ValidationError:
        return PastMessage()


def _guidance(turns: Sequence[PastMessage]) -> tuple[str, ...]:
    said = [line for turn in reversed(turns) for line in reversed(turn.feedback)]
    return tuple(line.partition(":")[2].strip() for line in said if line.startswith(_ANSWERS))


def _paired(command: CallTools, results: tuple[Result, ...]) -> tuple[PastCall, ...]:
    """Results come in order, but the host may put calls of its own between them."""
    left = list(results)
    calls: list[PastCall] = []
    for call in command.calls:
        at = next((at for at, result in enumerate(left) if result.tool == call.name), None)
        if at is None:
            calls.append(PastCall(call=call, success=False, outputs={}))
            continue
        calls.append(PastCall(call=call, success=left[at].success, outputs=left[at].outputs))
        del left[: at + 1]
    return tuple(calls)
