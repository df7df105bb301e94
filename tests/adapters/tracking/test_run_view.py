from __future__ import annotations

import json

from openeta_exp.adapters.tracking.run_view import (
    LONGEST_PARAM,
    Curves,
    Point,
    close_batch,
    run_params,
    run_tags,
)
from openeta_exp.domain.event import Event
from openeta_exp.domain.history import BatchHistory, History
from openeta_exp.domain.stop import StopReason
from tests.batches import arm, batch_ended, broke, ended, lost, manifest, spec, started, story, won
from tests.pauses import paused, went_on


def batch_of(*events: Event) -> BatchHistory:
    history = History()
    for event in events:
        history.add(event)
    return history.batches[-1]


def values(points: tuple[Point, ...]) -> dict[str, float]:
    return {point.key: point.value for point in points}


def test_running_rates_count_attempts_and_leave_breakages_out_of_results() -> None:
    curves = Curves()
    curves.advance(won(spec(0)), at_s=1.0)
    curves.advance(broke(spec(1)), at_s=2.0)
    points = curves.advance(lost(spec(2)), at_s=3.5)

    shown = values(points)
    assert shown["episodes/success_rate"] == 1 / 3
    assert shown["episodes/success_rate_over_results"] == 1 / 2
    assert shown["episodes/infrastructure_failures"] == 1
    assert shown["episodes/tokens_total"] == 19_000
    assert {(point.step, point.at_ms) for point in points} == {(3, 3500)}


def test_no_rate_over_results_is_drawn_before_there_is_a_result() -> None:
    assert "episodes/success_rate_over_results" not in values(
        Curves().advance(broke(spec(0)), at_s=1.0)
    )


def test_curves_start_where_reused_verdicts_left_off() -> None:
    batch = batch_of(
        started(manifest(2), batch_id="first"),
        ended(won(spec(0)), batch_id="first"),
        started(manifest(2), batch_id="second"),
    )
    curves = Curves()
    curves.begin(batch)

    points = curves.advance(lost(spec(1)), at_s=1.0)
    assert points[0].step == 2
    assert values(points)["episodes/success_rate"] == 0.5


def test_an_episode_that_was_solved_at_reset_draws_no_success() -> None:
    solved = won(
        spec(0), success=False, success_at_reset=True, stop_reason=StopReason.ENVIRONMENT_SUCCESS
    )
    shown = values(Curves().advance(solved, at_s=1.0))

    assert shown["episodes/success_rate"] == 0
    assert "episodes/success_rate_over_results" not in shown


def test_tokens_of_an_episode_that_was_answered_are_drawn_once() -> None:
    curves, asked = Curves(), paused().outcome
    curves.advance(asked, at_s=1.0)
    shown = values(curves.advance(went_on(won(spec(0), attempt=1), tokens=1_700), at_s=2.0))

    assert shown["episodes/tokens"] == 700
    assert shown["episodes/tokens_total"] == 1_700


def test_parameters_are_the_leaves_of_the_configuration_and_never_cut() -> None:
    config = {
        "provider": {"model": "m", "timeout_s": 60.0, "fallback": None},
        "episodes": ["a", "b"],
        "empty": {},
        "long": "x" * (LONGEST_PARAM + 1),
    }
    params = run_params(started(manifest(3)).model_copy(update={"config": config}))

    assert params["provider.model"] == "m"
    assert params["provider.timeout_s"] == "60.0"
    assert params["provider.fallback"] == "null"
    assert params["empty"] == "{}"
    assert "long" not in params
    # What the batch really ran stands above what the configuration asked for.
    assert params["episodes"] == '["a","b"]'


def test_lineage_and_whole_digests_are_tags() -> None:
    batch = batch_of(started(manifest(1)))
    tags = run_tags(batch)

    assert tags["arm_digest"] == arm().content_digest
    assert tags["manifest_digest"] == manifest(1).content_digest
    assert tags["scripted"] == "true"
    assert (tags["experiment_id"], tags["generation"], tags["phase"]) == ("exp", "0", "train")
    assert tags["mlflow.source.git.commit"] == "c" * 40


def test_the_table_has_a_row_for_every_episode_of_the_manifest() -> None:
    batch = batch_of(
        *list(story(manifest(3), [won(spec(0)), broke(spec(1))]))[:-1],
        batch_ended(interrupted=True),
    )
    closing = close_batch(batch)
    table = json.loads(closing.texts["outcomes.json"])
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]

    assert [row["episode"] for row in rows] == ["episode-0", "episode-1", "episode-2"]
    assert [row["status"] for row in rows] == ["success", "fail", "unfinished"]
    assert rows[1]["failure_class"] == "provider"
    assert rows[1]["reason"] == "provider_unavailable"
    assert rows[1]["message"] == "the endpoint did not answer"
    assert closing.interrupted
    assert json.loads(closing.tags["mlflow.loggedArtifacts"]) == [
        {"path": "outcomes.json", "type": "table"}
    ]


def test_the_headline_has_both_rates_with_their_bounds() -> None:
    batch = batch_of(*story(manifest(3), [won(spec(0)), lost(spec(1)), broke(spec(2))]))
    closing = close_batch(batch)
    shown = values(closing.points)

    assert shown["summary/success_rate"] == 1 / 3
    assert shown["summary/success_rate_over_results"] == 1 / 2
    assert shown["summary/success_rate_low"] < 1 / 3 < shown["summary/success_rate_high"]
    assert shown["summary/fails_provider"] == 1
    assert closing.tags["mlflow.runName"] == "g0 train 1/3"
    assert "Scripted models" in closing.tags["mlflow.note.content"]
