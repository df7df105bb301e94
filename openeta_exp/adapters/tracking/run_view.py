"""What a batch looks like as an MLflow run. Pure; knows the shape of MLflow and not its library."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from pydantic import JsonValue

from openeta_exp.adapters.tracking.outcome_table import OUTCOME_TABLE, outcome_table
from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.history import BatchHistory
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.record import canonical_json
from openeta_exp.domain.stop import FailureClass
from openeta_exp.domain.summary import (
    BatchSummary,
    Rate,
    summarise,
)
from openeta_exp.statistics.clustered_intervals import clustered_wilson
from openeta_exp.wire.batch_result import batch_result

HIGH_WATER_TAG = "openeta.journal_seq"
SUMMARY_TAG = "openeta.summary_seq"
"""The fact up to which a batch's summary goes."""
LONGEST_PARAM = 500
"""Longer values stay out of the parameters; `config.json` has them. MLflow would cut at 6000."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one metric."""

    key: str
    value: float
    at_ms: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """What a run shows of its batch as a whole."""

    points: tuple[Point, ...]
    tags: dict[str, str]
    texts: dict[str, str] = field(repr=False)
    """Artifacts by name."""


def run_name(started: BatchStarted, result: str = "") -> str:
    """What matters first: the table of runs cuts names at some twenty characters."""
    phase, label = started.phase, started.arm.label
    result = f" {result}" if result else ""
    if phase.endswith(f"-{label}"):
        return f"g{started.generation} {label}{result} {phase.removesuffix(f'-{label}')}"
    return f"g{started.generation} {phase}" + ("" if label == phase else f" {label}") + result


def identity_tags(batch: BatchHistory) -> dict[str, str]:
    """The tags by which a run is found again.

    Only names that say nothing to a person have a prefix: the page cuts names to fit values.
    """
    return {
        "openeta.batch_id": batch.started.batch_id,
        "arm_digest": batch.started.arm.content_digest,
        # Two output folders may hold batches of the same name and show them on one server.
        "openeta.first_started_s": repr(batch.first_started_s),
    }


def run_tags(batch: BatchHistory) -> dict[str, str]:
    """Lineage and digests, whole: tags are what MLflow searches by."""
    started = batch.started
    provenance = started.provenance
    tags = identity_tags(batch) | {
        "experiment_id": started.experiment_id,
        "generation": str(started.generation),
        "phase": started.phase,
        "arm": started.arm.label,
        "tree_digest": started.arm.tree_digest,
        "manifest_digest": started.manifest.content_digest,
        "config_digest": provenance.config_digest,
        "prompt_digest": provenance.prompt_digest,
        "scripted": "true" if started.arm.scripted else "false",
        "runs": str(batch.runs),
        "mlflow.source.name": f"openeta_exp {provenance.openeta_exp_version}",
        "mlflow.source.type": "LOCAL",
    }
    if provenance.git_commit is not None:
        tags["mlflow.source.git.commit"] = provenance.git_commit
    return tags


def run_params(started: BatchStarted) -> dict[str, str]:
    """The resolved configuration, one parameter per leaf."""
    fixed = {
        "episodes": str(len(started.manifest.episodes)),
        "concurrency": str(started.concurrency),
    }
    flat = {key: value for key, value in leaves(started.config) if len(value) <= LONGEST_PARAM}
    return fixed | flat


def opening_texts(started: BatchStarted) -> dict[str, str]:
    """Artifacts that are known from the start."""
    return {
        "config.json": _pretty(started.config),
        "provenance.json": started.provenance.model_dump_json(indent=2),
        "manifest.json": started.manifest.model_dump_json(indent=2),
    }


def sum_up(
    batch: BatchHistory,
    *,
    at_ms: int,
    stops_early: bool = False,
    failed: Set[FailureClass] = frozenset(),
) -> BatchPage:
    """Sum up a batch as it is now: at its end, after it, or without one.

    Args:
        at_ms: Unix time of the latest fact that is part of it.
        stops_early: The batch is done when enough is known, and what it left out on purpose
            counts for nothing.
        failed: Classes that an earlier summary may have counted. MLflow forgets no metric, so
            they are shown also if they are down to none.
    """
    started, ended = batch.started, batch.ended
    if stops_early and ended is not None:
        run = started.manifest.episodes
        kept = tuple(spec for spec in run if spec.content_digest in batch.outcomes)
        started = started.model_copy(update={"manifest": Manifest(episodes=kept or run)})
    outcomes = list(batch.outcomes.values())
    summary = summarise(
        started.manifest,
        outcomes,
        interval=clustered_wilson,
        duration_s=batch.duration_s,
        interrupted=ended is None or ended.interrupted,
        provider=batch.provider,
    )
    values = summary_values(summary, failed=failed)
    return BatchPage(
        points=tuple(Point(key, value, at_ms, batch.runs) for key, value in values.items()),
        tags={
            # The table of runs shows names and hides metrics until they are asked for.
            "mlflow.runName": run_name(
                started, f"{summary.tally.success_count}/{summary.tally.episode_count}"
            ),
            "mlflow.note.content": description(started, summary, over=ended is not None),
            "mlflow.loggedArtifacts": json.dumps([{"path": OUTCOME_TABLE, "type": "table"}]),
        },
        texts={
            OUTCOME_TABLE: json.dumps(outcome_table(started, outcomes)),
            "result.json": batch_result(started, outcomes, summary).to_json(),
        },
    )


def summary_values(
    summary: BatchSummary, *, failed: Set[FailureClass] = frozenset()
) -> dict[str, float]:
    """The headline metrics: what runs are compared by."""
    tally = summary.tally
    values: dict[str, float] = {
        **_rate_values("success_rate", summary.success_over_all),
        **_rate_values("success_rate_over_results", summary.success_over_results),
        **_rate_values("autonomous_success_rate", summary.autonomous_over_all),
        "episodes": tally.episode_count,
        "successes": tally.success_count,
        "assisted_successes": tally.assisted_success_count,
        "need_human": tally.need_human_count,
        "fails": tally.fail_count,
        "unfinished": tally.unfinished_count,
        "infrastructure_failures": tally.infrastructure_count,
        "cleanup_failures": summary.cleanup_failed_count,
        "tokens_total": summary.tokens.total_tokens,
        "turns_p50": summary.turns.p50,
        "episode_duration_p50_s": summary.episode_duration_s.p50,
        "episode_duration_p95_s": summary.episode_duration_s.p95,
        "duration_s": summary.duration_s,
    }
    values |= {f"fails_{kind}": tally.failures.get(kind, 0) for kind in {*tally.failures, *failed}}
    if summary.provider is not None:
        values |= {
            "provider_requests": summary.provider.request_count,
            "provider_retries": summary.provider.retries,
            "provider_queue_timeouts": summary.provider.queue_timeout_count,
            "provider_max_queue_wait_s": summary.provider.max_queue_wait_s,
        }
    return {f"summary/{key}": float(value) for key, value in values.items()}


def description(started: BatchStarted, summary: BatchSummary, *, over: bool = True) -> str:
    """Markdown that stands at the top of the run's page."""
    lines = [
        f"**{summary.success_over_all.count} of "
        f"{counted(summary.success_over_all.of, 'episode')} solved: "
        f"{_spoken(summary.success_over_all)}**; over those with a verdict "
        f"{_spoken(summary.success_over_results)} (95 % Wilson).",
    ]
    if summary.tally.failures:
        named = ", ".join(f"{kind} {count}" for kind, count in summary.tally.failures.items())
        lines.append(f"Not solved: {named}.")
    if summary.tally.need_human_count:
        lines.append(f"Waiting for a person: {summary.tally.need_human_count}.")
    if not over:
        lines.append("Running, or killed: this is how far it had come when it was shown.")
    elif summary.interrupted:
        lines.append("Interrupted: the same command goes on where this one stopped.")
    if started.arm.scripted:
        lines.append("Scripted models: this says nothing about a real model.")
    return "\n\n".join(lines)


def _spoken(rate: Rate) -> str:
    if rate.value is None:
        return "no rate"
    return f"{100 * rate.value:.0f} % ({100 * rate.low:.0f} to {100 * rate.high:.0f} %)"


def _rate_values(name: str, rate: Rate) -> dict[str, float]:
    if rate.value is None:
        return {}
    return {name: rate.value, f"{name}_low": rate.low, f"{name}_high": rate.high}


def leaves(value: JsonValue, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted name and text of everything inside that is not an object."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from leaves(each, f"{prefix}.{key}" if prefix else key)
    elif isinstance(value, str):
        yield prefix, value
    else:
        yield prefix, canonical_json(value).decode("utf-8")


def _pretty(value: JsonObject) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
