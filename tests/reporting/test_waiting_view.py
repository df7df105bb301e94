"""What is said of episodes that wait for a person."""

from __future__ import annotations

from openeta_exp.reporting.waiting_view import nothing_to_run
from tests.batches import lost, spec, won
from tests.pauses import waiting


def test_verdicts_alone_can_only_be_run_afresh() -> None:
    assert nothing_to_run([won(spec(0)), lost(spec(1))], answered=()) == (
        "every episode has a verdict from before; fresh=true runs them again",
    )


def test_episodes_that_wait_are_counted_and_how_to_answer_is_said() -> None:
    one, two = waiting(spec(1)), waiting(spec(2))
    how = "`command=pending` shows each question and the command that answers it"

    assert nothing_to_run([won(spec(0)), one], answered=()) == (
        f"episodes that wait for a person: 1 of 2; {how}",
    )
    assert nothing_to_run([won(spec(0)), one, two], answered=()) == (
        f"episodes that wait for a person: 2 of 3; {how}",
    )


def test_an_answered_question_is_no_longer_waited_for_and_its_episode_is() -> None:
    one, two = waiting(spec(1)), waiting(spec(2))

    answered, left = nothing_to_run([one, two], answered=[one.session_id])

    assert f"`command=resume session_id={one.session_id}` goes on with it" in answered
    assert left.startswith("episodes that wait for a person: 1 of 2;")
