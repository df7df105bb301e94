"""Closes the books of a batch: its summary, and its result file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.domain.summary import BatchSummary, summarise
from openeta_exp.statistics.clustered_intervals import clustered_wilson
from openeta_exp.wire.batch_result import BatchResult, batch_result


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What is told of a batch when it is over."""

    started: BatchStarted
    summary: BatchSummary
    result: BatchResult


def report_batch(
    started: BatchStarted,
    outcomes: Sequence[EpisodeOutcome],
    *,
    duration_s: float,
    interrupted: bool,
    provider: ProviderMetrics | None,
) -> BatchReport:
    """Sum up what there is; of an interrupted batch that may be a part.

    Args:
        outcomes: In any order.
        duration_s: Wall clock of this run of the batch.
    """
    summary = summarise(
        started.manifest,
        outcomes,
        interval=clustered_wilson,
        duration_s=duration_s,
        interrupted=interrupted,
        provider=provider,
    )
    return BatchReport(
        started=started, summary=summary, result=batch_result(started, outcomes, summary)
    )
