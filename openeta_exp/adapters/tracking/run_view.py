"""What a batch looks like as an MLflow run. Pure; knows the shape of MLflow and not its library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from openeta_exp.adapters.tracking.outcome_table import OUTCOME_TABLE, outcome_table
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.history import BatchHistory
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.record import canonical_json
from openeta_exp.domain.stop import FailureClass
from openeta_exp.domain.summary import (
    BatchSummary,
    EpisodeStatus,
    Rate,
    status_of,
    summarise,
)
from openeta_exp.domain.token_tally import AttemptTokens
from openeta_exp.statistics.intervals import wilson
from openeta_exp.wire.batch_result import batch_result

HIGH_WATER_TAG = "openeta.journal_seq"
LONGEST_PARAM = 500
"""Longer values stay out of the parameters; `config.json` has them. MLflow would cut at 6000."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one metric."""

    key: str
    value: float
    at_ms: int
    step: int


@dataclass(slots=True)
class Curves:
    """Running metrics over the episodes of a batch, in the order in which they ended.

    Every attempt is a step, so an episode that broke and was run again is seen twice; the
    summary metrics count it once.
    """

    attempts: int = 0
    verdicts: int = 0
    successes: int = 0
    infrastructure_failures: int = 0
    tokens: int = 0
    """Of all attempts that the batch made itself."""
    _attempt_tokens: AttemptTokens = field(default_factory=AttemptTokens)

    def begin(self, batch: BatchHistory) -> None:
        """Verdicts that are reused are where the curves start."""
        for outcome in batch.outcomes.values():
            self._count(outcome)
            self._attempt_tokens.of(outcome)

    def advance(self, outcome: EpisodeOutcome, *, at_s: float) -> tuple[Point, ...]:
        """Raise the counts by one outcome and return the points it makes."""
        self._count(outcome)
        tokens = self._attempt_tokens.of(outcome)
        self.tokens += tokens
        values = {
            "episodes/success_rate": self.successes / self.attempts,
            "episodes/infrastructure_failures": self.infrastructure_failures,
            "episodes/turns": outcome.usage.turns,
            "episodes/duration_s": outcome.usage.duration_s,
            "episodes/tokens": tokens,
            "episodes/tokens_total": self.tokens,
        }
        if self.verdicts:
            values["episodes/success_rate_over_results"] = self.successes / self.verdicts
        return tuple(
            Point(key, float(value), int(at_s * 1000), self.attempts)
            for key, value in values.items()
        )

    def _count(self, outcome: EpisodeOutcome) -> None:
        self.attempts += 1
        if isinstance(outcome, EpisodeFailure):
            self.infrastructure_failures += 1
        elif outcome.failure_class is not FailureClass.INVALID:
            self.verdicts += status_of(outcome) is not EpisodeStatus.NEED_HUMAN
            self.successes += outcome.success


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What a run shows once its batch has ended."""

    interrupted: bool
    at_ms: int
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


def close_batch(batch: BatchHistory, *, stops_early: bool = False) -> Closing:
    """Sum up a batch whose end is known.

    Args:
        stops_early: The batch is done when enough is known, and what it left out on purpose
            counts for nothing.
    """
    started, ended = batch.started, batch.ended
    assert ended is not None, "only an ended batch is closed"
    if stops_early:
        run = started.manifest.episodes
        kept = tuple(spec for spec in run if spec.content_digest in batch.outcomes)
        started = started.model_copy(update={"manifest": Manifest(episodes=kept or run)})
    outcomes = list(batch.outcomes.values())
    summary = summarise(
        started.manifest,
        outcomes,
        interval=wilson,
        duration_s=batch.duration_s,
        interrupted=ended.interrupted,
        provider=ended.provider,
    )
    at_ms = int(ended.at_s * 1000)
    return Closing(
        interrupted=ended.interrupted,
        at_ms=at_ms,
        points=tuple(
            Point(key, value, at_ms, batch.runs) for key, value in summary_values(summary).items()
        ),
        tags={
            # The table of runs shows names and hides metrics until they are asked for.
            "mlflow.runName": run_name(
                started, f"{summary.tally.success_count}/{summary.tally.episode_count}"
            ),
            "mlflow.note.content": description(started, summary),
            "mlflow.loggedArtifacts": json.dumps([{"path": OUTCOME_TABLE, "type": "table"}]),
        },
        texts={
            OUTCOME_TABLE: json.dumps(outcome_table(started, outcomes)),
            "result.json": batch_result(started, outcomes, summary).to_json(),
        },
    )


def summary_values(summary: BatchSummary) -> dict[str, float]:
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
    values |= {f"fails_{kind}": count for kind, count in tally.failures.items()}
    if summary.provider is not None:
        values |= {
            "provider_requests": summary.provider.request_count,
            "provider_retries": summary.provider.retries,
            "provider_queue_timeouts": summary.provider.queue_timeout_count,
            "provider_max_queue_wait_s": summary.provider.max_queue_wait_s,
        }
    return {f"summary/{key}": float(value) for key, value in values.items()}


def description(started: BatchStarted, summary: BatchSummary) -> str:
    """Markdown that stands at the top of the run's page."""
    lines = [
        f"**{summary.success_over_all.count} of {summary.success_over_all.of} episodes solved: "
        f"{_spoken(summary.success_over_all)}**; over those with a verdict "
        f"{_spoken(summary.success_over_results)} (95 % Wilson).",
    ]
    if summary.tally.failures:
        named = ", ".join(f"{kind} {count}" for kind, count in summary.tally.failures.items())
        lines.append(f"Not solved: {named}.")
    if summary.interrupted:
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
