from __future__ import annotations

import time

from openeta_exp.engine.summary import report_batch
from openeta_exp.statistics.intervals import wilson
from tests.batches import lost, manifest, provider_metrics, spec, started, won


def test_a_report_holds_the_same_numbers_in_summary_and_file() -> None:
    report = report_batch(
        started(manifest(2)),
        [lost(spec(1)), won(spec(0))],
        duration_s=3.0,
        interrupted=False,
        provider=provider_metrics(),
    )

    assert [row.episode_id for row in report.result.outcomes] == ["episode-0", "episode-1"]
    assert report.summary.success_over_all.low == wilson(1, 2).low
    assert report.result.success_count == report.summary.tally.success_count == 1
    assert report.result.provider_concurrency is not None


def test_ten_thousand_episodes_are_reported_in_seconds() -> None:
    episodes = manifest(10_000)
    outcomes = [won(each) for each in episodes.episodes]

    before_s = time.process_time()
    report_batch(
        started(episodes), outcomes, duration_s=3.0, interrupted=False, provider=None
    ).result.to_json()

    assert time.process_time() - before_s < 6.0
