"""Whoever sits at the terminal answers with a letter and a reason."""

from __future__ import annotations

import io
import os

import anyio
import pytest

from openeta_exp.reporting.console import Console
from openeta_exp.reporting.prompt import TerminalPrompt, question
from tests.approvals import request

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("y\n", (True, "")),
        ("YES looks right\n", (True, "looks right")),
        ("n too close to the rim\n", (False, "too close to the rim")),
        ("what?\n\nn\n", (False, "")),
    ],
)
async def test_a_line_is_a_decision_or_is_asked_for_again(
    typed: str, decision: tuple[bool, str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, typed.encode())
    shown = io.StringIO()

    try:
        answer = await TerminalPrompt(Console(err=shown), descriptor=reading)(request())
    finally:
        os.close(reading)
        os.close(writing)

    assert answer == decision
    assert request().interaction_id in shown.getvalue()


async def test_an_answer_from_elsewhere_ends_the_prompt_and_the_next_line_is_for_the_next() -> None:
    reading, writing = os.pipe()
    prompt = TerminalPrompt(Console(err=io.StringIO()), descriptor=reading)

    async with anyio.create_task_group() as group:
        group.start_soon(prompt, request())
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    os.write(writing, b"n\n")
    answer = await prompt(request(2))
    os.close(reading)
    os.close(writing)

    assert answer == (False, "")


async def test_a_terminal_that_goes_away_decides_nothing() -> None:
    reading, writing = os.pipe()
    os.close(writing)

    with anyio.move_on_after(0.05) as scope:
        await TerminalPrompt(Console(err=io.StringIO()), descriptor=reading)(request())
    os.close(reading)

    assert scope.cancelled_caught


def test_the_question_shows_what_would_be_done_and_why() -> None:
    text = question(request())

    assert "tool call move_to" in text
    assert request().task in text
    assert "The next step of the skill." in text
