from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.episode import Assistance, EpisodeOutcome
from openeta_exp.domain.stop import FailureClass, StopReason
from openeta_exp.domain.summary import (
    BatchSummary,
    EpisodeStatus,
    in_manifest_order,
    spread,
    status_of,
    summarise,
)
from openeta_exp.statistics.clustered_intervals import clustered_wilson
from openeta_exp.statistics.intervals import wilson
from tests.batches import broke, lost, manifest, spec, won


def summary_of(count: int, outcomes: list[EpisodeOutcome]) -> BatchSummary:
    return summarise(manifest(count), outcomes, interval=clustered_wilson, duration_s=10.0)


def test_a_breakage_lowers_the_rate_over_all_and_leaves_the_rate_over_results() -> None:
    summary = summary_of(4, [won(spec(0)), won(spec(1)), lost(spec(2)), broke(spec(3))])

    assert summary.success_over_results.value == pytest.approx(2 / 3)
    assert summary.success_over_all.value == pytest.approx(2 / 4)
    assert summary.tally.failures == {FailureClass.BUDGET: 1, FailureClass.PROVIDER: 1}
    bounds = wilson(2, 3)
    assert (summary.success_over_results.low, summary.success_over_results.high) == (
        bounds.low,
        bounds.high,
    )


def test_an_episode_that_was_solved_at_reset_is_flagged_and_says_nothing() -> None:
    solved = won(
        spec(0),
        success=False,
        success_at_reset=True,
        stop_reason=StopReason.ENVIRONMENT_SUCCESS,
    )
    summary = summary_of(2, [solved, won(spec(1))])

    assert summary.tally.failures == {FailureClass.INVALID: 1}
    assert summary.success_over_results.of == 1
    assert summary.success_over_all.value == pytest.approx(0.5)


def test_help_by_a_person_outweighs_help_by_guidance() -> None:
    outcomes: list[EpisodeOutcome] = [
        won(spec(0)),
        won(spec(1), assistance=Assistance(guidance_interventions=2)),
        won(spec(2), assistance=Assistance(guidance_interventions=1, human_interventions=1)),
        won(spec(3), success=False, assistance=Assistance(guidance_interventions=1)),
    ]
    tally = summary_of(4, outcomes).tally

    assert tally.autonomous_success_count == 1
    assert tally.agent_assisted_success_count == 1
    assert tally.human_assisted_success_count == 1
    assert tally.assisted_success_count == 2
    assert tally.intervention_count == 3


def test_an_episode_that_waits_for_a_person_is_neither_won_nor_lost() -> None:
    waiting = won(spec(0), success=False, stop_reason=StopReason.NEED_HUMAN)
    summary = summary_of(1, [waiting])

    assert status_of(waiting) is EpisodeStatus.NEED_HUMAN
    assert summary.tally.need_human_count == 1
    assert summary.success_over_results.value is None


def test_outcomes_are_found_by_content_and_reported_in_manifest_order() -> None:
    rows = in_manifest_order(manifest(3), [lost(spec(2)), won(spec(7)), won(spec(0))])

    assert [(each.episode_id, outcome) for each, outcome in rows] == [
        ("episode-0", won(spec(0))),
        ("episode-1", None),
        ("episode-2", lost(spec(2))),
    ]


def test_a_verdict_outlasts_a_later_breakage_of_the_same_episode() -> None:
    rows = in_manifest_order(manifest(1), [broke(spec(0)), won(spec(0)), broke(spec(0), attempt=1)])

    assert [outcome for _, outcome in rows] == [won(spec(0))]


def test_tasks_are_counted_apart_in_the_order_the_manifest_names_them() -> None:
    summary = summary_of(5, [won(spec(0)), lost(spec(1)), won(spec(3))])

    assert [
        (each.task, each.tally.episode_count, each.tally.success_count) for each in summary.tasks
    ] == [("pick up object 0", 2, 2), ("pick up object 1", 2, 0), ("pick up object 2", 1, 0)]


def test_percentiles_are_values_that_occurred() -> None:
    assert spread([]).max == 0.0
    assert spread([3.0]).model_dump() == {"mean": 3.0, "p50": 3.0, "p95": 3.0, "max": 3.0}
    assert spread(list(range(1, 101))).p95 == 95
    assert spread([1, 2, 3, 100]).p50 == 2


@given(st.lists(st.sampled_from([won, lost, broke, None]), max_size=12))
def test_every_episode_is_counted_exactly_once(kinds: list[object]) -> None:
    outcomes = [make(spec(index)) for index, make in enumerate(kinds) if callable(make)]
    tally = summary_of(max(1, len(kinds)), outcomes).tally

    assert tally.episode_count == (
        tally.success_count + tally.need_human_count + tally.fail_count + tally.unfinished_count
    )
    assert tally.fail_count == sum(tally.failures.values())
    assert tally.success_count == tally.autonomous_success_count + tally.assisted_success_count


def test_repeats_of_an_episode_count_once_in_the_intervals() -> None:
    twice = manifest(3).model_copy(
        update={"episodes": tuple(spec(index, repeat=n) for index in range(3) for n in range(2))}
    )
    outcomes = [won(each) for each in twice.episodes]

    summary = summarise(twice, outcomes, interval=clustered_wilson, duration_s=1.0)

    assert (summary.success_over_all.count, summary.success_over_all.of) == (6, 6)
    assert summary.success_over_all.low == pytest.approx(wilson(3, 3).low)
    assert summary.success_over_results.low == pytest.approx(wilson(3, 3).low)
