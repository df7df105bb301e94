"""What `openeta --command run` prints about a result file."""

from __future__ import annotations

from pathlib import Path

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.summary import summarise
from openeta_exp.statistics.clustered_intervals import clustered_wilson
from openeta_exp.wire.batch_result import BatchResult, batch_result
from openeta_exp.wire.command_report import run_report
from tests.batches import broke, lost, manifest, provider_metrics, spec, started, won

PATH = Path("outputs/result.json")


def result(outcomes: list[EpisodeOutcome]) -> BatchResult:
    start = started(manifest(len(outcomes)))
    summary = summarise(
        start.manifest,
        outcomes,
        interval=clustered_wilson,
        duration_s=1.0,
        provider=provider_metrics(),
    )
    return batch_result(start, outcomes, summary)


def test_metrics_failures_and_the_way_to_the_whole_result_are_told() -> None:
    told = run_report(result([won(spec(0)), lost(spec(1)), broke(spec(2))]), path=PATH, full=False)

    assert told["schema_version"] == "openeta.command_run.v1"
    assert told["ok"] is False
    assert told["result_path"] == str(PATH)
    assert told["metrics"] == {
        "episode_count": 3,
        "objective_success_count": 1,
        "objective_success_rate": 0.333333,
        "objective_success_episode_ids": [spec(0).episode_id],
        "runtime_success_count": 1,
        "fail_count": 2,
        "need_human_count": 0,
    }
    failures = told["failures"]
    assert isinstance(failures, list)
    assert [each["episode_id"] for each in failures if isinstance(each, dict)] == [
        spec(1).episode_id,
        spec(2).episode_id,
    ]
    assert "batch" not in told


def test_the_whole_result_is_added_on_request() -> None:
    whole = result([won(spec(0))])

    told = run_report(whole, path=PATH, full=True)

    assert told["ok"] is True
    assert told["batch"] == whole.model_dump(mode="json")
