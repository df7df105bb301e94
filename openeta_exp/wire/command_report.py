"""What `openeta --command run` prints (`openeta.command_run.v1`): the result file in short."""

from __future__ import annotations

from pathlib import Path

from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.summary import EpisodeStatus
from openeta_exp.wire.batch_result import BatchResult

SCHEMA_VERSION = "openeta.command_run.v1"


def metrics(result: BatchResult) -> JsonObject:
    """How a batch went, by the original's names."""
    won = [row for row in result.outcomes if row.status is EpisodeStatus.SUCCESS]
    return {
        "episode_count": result.episode_count,
        "objective_success_count": result.success_count,
        "objective_success_rate": result.rates.success_rate,
        "objective_success_episode_ids": [row.episode_id for row in won],
        "runtime_success_count": result.success_count,
        "fail_count": result.fail_count,
        "need_human_count": result.need_human_count,
    }


def run_report(result: BatchResult, *, path: Path, full: bool) -> JsonObject:
    """Metrics, failures and where the whole result lies.

    Args:
        full: Whether to add the whole result as `batch`.
    """
    failures: list[JsonValue] = [
        {
            "episode_id": row.episode_id,
            "status": row.status.value,
            "failure_class": row.failure_class.value,
            "stop_reason": None if row.stop_reason is None else row.stop_reason.value,
            **{
                name: value
                for name, value in row.error.model_dump(mode="json").items()
                if name in ("code", "type", "message")
            },
        }
        for row in result.outcomes
        if row.status is EpisodeStatus.FAIL
    ]
    provider = result.provider_concurrency
    report: JsonObject = {
        "schema_version": SCHEMA_VERSION,
        "ok": not failures and not result.interrupted,
        "experiment_id": result.experiment_id,
        "generation": result.generation,
        "result_path": str(path),
        "metrics": metrics(result),
        "provider_concurrency": None if provider is None else provider.model_dump(mode="json"),
        "failures": failures,
    }
    if full:
        report["batch"] = result.model_dump(mode="json")
    return report
