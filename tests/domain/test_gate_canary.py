from __future__ import annotations

from openeta_exp.domain.canary import smoke_test
from tests.statistics.paired_arms import at_reset, broke, key, lost, won


def test_one_success_without_trouble_passes() -> None:
    seen = smoke_test([won(key(0)), lost(key(1))])

    assert seen.passed
    assert (seen.attempts, seen.successes) == (2, 1)


def test_every_trouble_is_told() -> None:
    seen = smoke_test(
        [
            broke(key(0), safety_violations=1),
            lost(key(1), contract_violations=2),
        ]
    )

    assert seen.problems == (
        "table/task-0#0.0 broke: simulator_mcp_call_failed",
        "table/task-0#0.0: 1 safety violation",
        "table/task-1#1.0: 2 contract violations",
        "none of 2 canary episodes succeeded",
    )


def test_no_episodes_are_no_pass() -> None:
    assert not smoke_test([]).passed


def test_what_was_solved_at_reset_is_no_attempt() -> None:
    seen = smoke_test([at_reset(key(0)), won(key(1))])

    assert (seen.attempts, seen.successes, seen.passed) == (1, 1, True)
    assert not smoke_test([at_reset(key(0))]).passed
