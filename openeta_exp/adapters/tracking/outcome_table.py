"""The table of a batch, one row per episode, in the form that MLflow shows page by page."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.summary import in_manifest_order, status_of

OUTCOME_TABLE = "outcomes.json"
"""Name of the artifact."""

_COLUMNS = (
    "episode",
    "status",
    "failure_class",
    "reason",
    "turns",
    "tool_calls",
    "tokens",
    "duration_s",
    "task",
    "env_id",
    "seed",
    "repeat",
    "assisted",
    "cleanup",
    "message",
    "session",
)


def outcome_table(started: BatchStarted, outcomes: Iterable[EpisodeOutcome]) -> JsonObject:
    """Rows in manifest order; an episode that has not ended has a row too."""
    cells = [
        _spec_cells(spec) | ({"status": "unfinished"} if outcome is None else _cells(outcome))
        for spec, outcome in in_manifest_order(started.manifest, outcomes)
    ]
    rows: list[JsonValue] = [[row.get(column) for column in _COLUMNS] for row in cells]
    return {"columns": list(_COLUMNS), "data": rows}


def _spec_cells(spec: EpisodeSpec) -> JsonObject:
    return {
        "episode": spec.episode_id,
        "task": spec.task,
        "env_id": spec.env_id,
        "seed": spec.seed,
        "repeat": spec.repeat,
    }


def _cells(outcome: EpisodeOutcome) -> JsonObject:
    used = outcome.usage
    cells: JsonObject = {
        "status": status_of(outcome),
        "failure_class": outcome.failure_class,
        "turns": used.turns,
        "tool_calls": used.tool_calls,
        "tokens": used.tokens.total_tokens,
        "duration_s": round(used.duration_s, 3),
        "assisted": outcome.assistance.assisted,
        "cleanup": outcome.cleanup.status,
        "session": outcome.session_id,
    }
    match outcome:
        case EpisodeResult(stop_reason=stop_reason):
            return cells | {"reason": stop_reason}
        case EpisodeFailure(code=code, message=message):
            return cells | {"reason": code, "message": message}
