"""Which decision a model's text is, and when nobody can tell."""

from __future__ import annotations

import pytest

from openeta_exp.domain.decision import CallTools, Finish
from openeta_exp.domain.tool import ToolCall
from openeta_exp.wire.agent_command import CommandError, parse_command, render_command

LOOK = CallTools(calls=(ToolCall(name="observe", arguments={"camera": "{wrist}"}),), reasoning="x")
OBSERVE = render_command(LOOK)
DONE = render_command(Finish(claims_success=True, reasoning=""))


@pytest.mark.parametrize(
    "text",
    [
        OBSERVE,
        f"```json\n{OBSERVE}\n```",
        '<think>what is asked {about} it: maybe {"tool":1}</think>\nHere is my answer:\n' + OBSERVE,
        'what is asked {about} it: maybe {"tool":1}\nHere is my answer:\n' + OBSERVE,
        f"<think>or is it {DONE}?</think>{OBSERVE}",
        f"or is it {DONE}?</think>{OBSERVE}",
        f'the parameters are {{"type": "object"}}: {OBSERVE} {{"confidence": 1}}',
        OBSERVE.replace('"x"', '"first thought"') + OBSERVE,
    ],
)
def test_thoughts_and_prose_around_a_command_are_tolerated(text: str) -> None:
    assert parse_command(text) == LOOK


def test_two_different_commands_are_an_error_and_none_is_carried_out() -> None:
    with pytest.raises(CommandError, match="different commands, and only one can be carried out"):
        parse_command(f"first {OBSERVE} then {DONE}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I would move {to the left", "exactly one JSON object"),
        ('{"parameters": {}}', "`name` is missing"),
        (OBSERVE[:-1], "not valid JSON"),
        ('{"calls": [{"name": "observe"} {"name": "observe"}]}', "not valid JSON"),
        (f'{OBSERVE} {{"name": 1}}', "`name` is missing"),
    ],
)
def test_the_last_command_is_the_one_that_is_judged(text: str, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        parse_command(text)
