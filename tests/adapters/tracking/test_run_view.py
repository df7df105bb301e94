from __future__ import annotations

import json

from openeta_exp.adapters.tracking.run_view import (
    LONGEST_PARAM,
    Point,
    run_params,
    run_tags,
    sum_up,
)
from openeta_exp.domain.event import Event
from openeta_exp.domain.history import BatchHistory, History
from tests.batches import arm, batch_ended, broke, lost, manifest, spec, started, story, won


def batch_of(*events: Event) -> BatchHistory:
    history = History()
    for event in events:
        history.add(event)
    return history.batches[-1]


def values(points: tuple[Point, ...]) -> dict[str, float]:
    return {point.key: point.value for point in points}


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
    page = sum_up(batch, at_ms=1)
    table = json.loads(page.texts["outcomes.json"])
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]

    assert [row["episode"] for row in rows] == ["episode-0", "episode-1", "episode-2"]
    assert [row["status"] for row in rows] == ["success", "fail", "unfinished"]
    assert rows[1]["failure_class"] == "provider"
    assert rows[1]["reason"] == "provider_unavailable"
    assert rows[1]["message"] == "the endpoint did not answer"
    assert json.loads(page.tags["mlflow.loggedArtifacts"]) == [
        {"path": "outcomes.json", "type": "table"}
    ]


def test_the_headline_has_both_rates_with_their_bounds() -> None:
    batch = batch_of(*story(manifest(3), [won(spec(0)), lost(spec(1)), broke(spec(2))]))
    page = sum_up(batch, at_ms=1)
    shown = values(page.points)

    assert shown["summary/success_rate"] == 1 / 3
    assert shown["summary/success_rate_over_results"] == 1 / 2
    assert shown["summary/success_rate_low"] < 1 / 3 < shown["summary/success_rate_high"]
    assert shown["summary/fails_provider"] == 1
    assert page.tags["mlflow.runName"] == "g0 train 1/3"
    assert "Scripted models" in page.tags["mlflow.note.content"]
