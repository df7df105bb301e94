"""The result file of a batch, `openeta.parallel_episode_batch.v2`, both ways.

Names and meaning are the original's. What is added says what a result is worth: `failure_class`
and `stop_reason` on every outcome, both success rates with their intervals, the digests of arm,
episode and configuration, and the versions of everything that took part. `episode.steps` stays
empty: `episode.trace` names the file beside this one that holds them, one line per turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, ValidationError

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import BatchStarted, Provenance
from openeta_exp.domain.identity import Digest, EpisodeId, JsonObject
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.domain.record import Record
from openeta_exp.domain.stop import FailureClass
from openeta_exp.domain.summary import BatchSummary, Rate, Tally, in_manifest_order, tally
from openeta_exp.errors import StoreError
from openeta_exp.wire.outcome_row import OutcomeRow, outcome_of, outcome_row

SCHEMA_VERSION: Literal["openeta.parallel_episode_batch.v2"] = "openeta.parallel_episode_batch.v2"
_DECIMALS = 6


class _RateInterval(Record):
    count: int
    of: int
    rate: float | None
    low: float
    high: float


class _Rates(Record):
    """Over all episodes, but for `success_rate_over_results`."""

    success_rate: float
    success_rate_over_results: float | None
    autonomous_success_rate: float
    assisted_success_rate: float
    agent_assisted_success_rate: float
    human_assisted_success_rate: float
    intervention_rate: float


class _Intervals(Record):
    """Wilson intervals at 95 %, in which repeats of an episode count once."""

    success_rate: _RateInterval
    success_rate_over_results: _RateInterval
    autonomous_success_rate: _RateInterval


class _ArmStamp(Record):
    label: str
    arm_digest: Digest
    tree_digest: Digest
    scripted: bool
    settings: JsonObject


class _Provider(ProviderMetrics):
    schema_version: Literal["openeta.provider_concurrency.v1"] = "openeta.provider_concurrency.v1"


class BatchResult(Record):
    """The whole file."""

    schema_version: Literal["openeta.parallel_episode_batch.v2"]
    batch_id: str
    experiment_id: str
    generation: int
    phase: str
    interrupted: bool
    concurrency: int
    duration_s: float
    episode_count: int = Field(ge=0)
    success_count: int = Field(ge=0)
    autonomous_success_count: int = Field(ge=0)
    assisted_success_count: int = Field(ge=0)
    agent_assisted_success_count: int = Field(ge=0)
    human_assisted_success_count: int = Field(ge=0)
    need_human_count: int = Field(ge=0)
    fail_count: int = Field(ge=0)
    failure_classes: dict[FailureClass, int]
    cleanup_failed_count: int = Field(ge=0)
    unfinished_episode_ids: tuple[EpisodeId, ...]
    rates: _Rates
    intervals: _Intervals
    scripted: bool
    """True if any model was a scripted one: such a result says nothing about a real agent."""
    arm: _ArmStamp
    manifest_digest: Digest
    provenance: Provenance
    provider_concurrency: _Provider | None
    outcomes: tuple[OutcomeRow, ...]


def batch_result(
    started: BatchStarted, outcomes: Iterable[EpisodeOutcome], summary: BatchSummary
) -> BatchResult:
    """Lay a batch out as its result file.

    Args:
        outcomes: In any order; those of other episodes are left out.
        summary: Of the same batch.
    """
    rows = in_manifest_order(started.manifest, outcomes)
    total = summary.tally
    return BatchResult(
        schema_version=SCHEMA_VERSION,
        batch_id=started.batch_id,
        experiment_id=started.experiment_id,
        generation=started.generation,
        phase=started.phase,
        interrupted=summary.interrupted,
        concurrency=started.concurrency,
        duration_s=summary.duration_s,
        episode_count=total.episode_count,
        success_count=total.success_count,
        autonomous_success_count=total.autonomous_success_count,
        assisted_success_count=total.assisted_success_count,
        agent_assisted_success_count=total.agent_assisted_success_count,
        human_assisted_success_count=total.human_assisted_success_count,
        need_human_count=total.need_human_count,
        fail_count=total.fail_count,
        failure_classes=total.failures,
        cleanup_failed_count=summary.cleanup_failed_count,
        unfinished_episode_ids=tuple(spec.episode_id for spec, found in rows if found is None),
        rates=_rates(summary),
        intervals=_Intervals(
            success_rate=_interval(summary.success_over_all),
            success_rate_over_results=_interval(summary.success_over_results),
            autonomous_success_rate=_interval(summary.autonomous_over_all),
        ),
        scripted=started.arm.scripted,
        arm=_ArmStamp(
            label=started.arm.label,
            arm_digest=started.arm.content_digest,
            tree_digest=started.arm.tree_digest,
            scripted=started.arm.scripted,
            settings=started.arm.settings,
        ),
        manifest_digest=started.manifest.content_digest,
        provenance=started.provenance,
        provider_concurrency=(
            None if summary.provider is None else _Provider(**dict(summary.provider))
        ),
        outcomes=tuple(
            outcome_row(index, spec, outcome)
            for index, (spec, outcome) in enumerate(rows)
            if outcome is not None
        ),
    )


def parse_batch_result(text: str | bytes, *, source: str) -> BatchResult:
    """Read a result file.

    Raises:
        StoreError: It is not one of this version, or its counts contradict its outcomes.
    """
    try:
        result = BatchResult.from_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise StoreError(
            f"{source}: is not a result of {SCHEMA_VERSION}: {where}: {first['msg']}"
        ) from error
    try:
        counted = tally(outcome_of(row) for row in result.outcomes)
    except ValueError as error:
        raise StoreError(f"{source}: contradicts itself: {error}") from error
    if counted != _stated(result, intervention_count=counted.intervention_count):
        raise StoreError(f"{source}: its counts do not follow from its outcomes")
    return result


def _stated(result: BatchResult, *, intervention_count: int) -> Tally:
    """The counts in the head of a file, of its finished episodes."""
    return Tally(
        episode_count=result.episode_count - len(result.unfinished_episode_ids),
        success_count=result.success_count,
        autonomous_success_count=result.autonomous_success_count,
        agent_assisted_success_count=result.agent_assisted_success_count,
        human_assisted_success_count=result.human_assisted_success_count,
        need_human_count=result.need_human_count,
        fail_count=result.fail_count,
        intervention_count=intervention_count,
        failures=result.failure_classes,
    )


def _rates(summary: BatchSummary) -> _Rates:
    return _Rates(
        success_rate=_rounded(summary.success_over_all) or 0.0,
        success_rate_over_results=_rounded(summary.success_over_results),
        autonomous_success_rate=_rounded(summary.autonomous_over_all) or 0.0,
        assisted_success_rate=_rounded(summary.assisted_over_all) or 0.0,
        agent_assisted_success_rate=_rounded(summary.agent_assisted_over_all) or 0.0,
        human_assisted_success_rate=_rounded(summary.human_assisted_over_all) or 0.0,
        intervention_rate=_rounded(summary.intervention_over_all) or 0.0,
    )


def _rounded(rate: Rate) -> float | None:
    return None if rate.value is None else round(rate.value, _DECIMALS)


def _interval(rate: Rate) -> _RateInterval:
    return _RateInterval(
        count=rate.count,
        of=rate.of,
        rate=_rounded(rate),
        low=round(rate.low, _DECIMALS),
        high=round(rate.high, _DECIMALS),
    )
