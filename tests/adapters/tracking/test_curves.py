"""The running metrics of a batch, with facts as a journal tells them."""

from __future__ import annotations

from collections.abc import Iterable

from openeta_exp.adapters.tracking.curves import Curves
from openeta_exp.adapters.tracking.run_view import Point
from openeta_exp.domain.event import BatchStarted, EpisodeEnded, Event
from openeta_exp.domain.history import History
from openeta_exp.domain.stop import FailureClass, StopReason
from tests.batches import batch_ended, broke, ended, lost, manifest, spec, started, won
from tests.pauses import paused, went_on


def drawn(*events: Event) -> tuple[Curves, list[Point]]:
    """The curves of the batch that began last, and the points of its last attempt."""
    history, curves, points = History(), dict[int, Curves](), tuple[Point, ...]()
    for event in events:
        batch = history.add(event)
        assert batch is not None
        known = curves.setdefault(id(batch), Curves(batch))
        match event:
            case BatchStarted():
                known.begin()
            case EpisodeEnded(outcome=outcome, at_s=at_s):
                points = known.advance(outcome, at_s=at_s)
            case _:
                pass
    return list(curves.values())[-1], list(points)


def values(points: Iterable[Point]) -> dict[str, float]:
    return {point.key: point.value for point in points}


def test_running_rates_count_episodes_and_leave_breakages_out_of_results() -> None:
    _, points = drawn(
        started(manifest(3)), ended(won(spec(0))), ended(broke(spec(1))), ended(lost(spec(2)))
    )

    shown = values(points)
    assert shown["episodes/success_rate"] == 1 / 3
    assert shown["episodes/success_rate_over_results"] == 1 / 2
    assert shown["episodes/infrastructure_failures"] == 1
    assert shown["episodes/tokens_total"] == 19_000
    assert {point.step for point in points} == {3}


def test_no_rate_over_results_is_drawn_before_there_is_a_result() -> None:
    _, points = drawn(started(manifest(1)), ended(broke(spec(0))))

    assert "episodes/success_rate_over_results" not in values(points)


def test_curves_start_where_reused_verdicts_left_off() -> None:
    _, points = drawn(
        started(manifest(2), batch_id="first"),
        ended(won(spec(0)), batch_id="first"),
        started(manifest(2), batch_id="second"),
        ended(lost(spec(1)), batch_id="second"),
    )

    assert points[0].step == 2
    assert values(points)["episodes/success_rate"] == 0.5


def test_an_episode_that_was_solved_at_reset_draws_no_success() -> None:
    solved = won(
        spec(0), success=False, success_at_reset=True, stop_reason=StopReason.ENVIRONMENT_SUCCESS
    )
    _, points = drawn(started(manifest(1)), ended(solved))

    assert values(points)["episodes/success_rate"] == 0
    assert "episodes/success_rate_over_results" not in values(points)


def test_an_episode_that_broke_and_was_run_again_is_one_episode() -> None:
    curves, points = drawn(
        started(manifest(2)),
        ended(broke(spec(0))),
        ended(won(spec(1))),
        batch_ended(),
        started(manifest(2)),
        ended(won(spec(0), attempt=1)),
    )

    shown = values(points)
    assert (points[0].step, shown["episodes/success_rate"]) == (3, 1.0)
    assert shown["episodes/success_rate_over_results"] == 1.0
    assert shown["episodes/infrastructure_failures"] == 0
    assert curves.failed == {FailureClass.PROVIDER}


def test_a_verdict_outlasts_a_later_breakage() -> None:
    _, points = drawn(started(manifest(1)), ended(won(spec(0))), ended(broke(spec(0), attempt=1)))

    shown = values(points)
    assert shown["episodes/success_rate"] == 1.0
    assert shown["episodes/infrastructure_failures"] == 0


def test_an_episode_that_was_answered_is_one_episode_and_its_tokens_are_drawn_once() -> None:
    asked = paused()
    _, points = drawn(
        started(manifest(2)),
        ended(asked.outcome),
        ended(won(spec(1))),
        batch_ended(),
        ended(went_on(won(asked.spec, attempt=1), tokens=1_700)),
    )

    shown = values(points)
    assert shown["episodes/success_rate"] == 1.0
    assert shown["episodes/tokens"] == 700
    assert shown["episodes/tokens_total"] == 1_700 + 9_500


def test_rows_that_were_taken_out_of_the_manifest_make_no_rate() -> None:
    _, points = drawn(
        started(manifest(2)),
        ended(lost(spec(1))),
        batch_ended(interrupted=True),
        started(manifest(1)),
        ended(won(spec(0))),
    )

    assert values(points)["episodes/success_rate"] == 1.0
