"""What a batch comes to: counts, rates with their uncertainty, costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol, assert_never

from pydantic import Field

from openeta_exp.domain.episode import (
    CleanupStatus,
    EpisodeFailure,
    EpisodeOutcome,
    EpisodeResult,
    says_something,
)
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.model import ProviderMetrics, TokenUsage
from openeta_exp.domain.record import Record
from openeta_exp.domain.stop import INFRASTRUCTURE, FailureClass, StopReason


class Bounds(Protocol):
    """Both ends of an interval of a rate."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class IntervalOf(Protocol):
    """A method of interval of a rate, e.g. Wilson's at 95 %.

    Repeats of one episode are alike and say little more than one of them, so the method is told
    which of the runs are: `episodes` holds the same digest for those.
    """

    def __call__(self, successes: int, episodes: Sequence[Digest], /) -> Bounds: ...


class EpisodeStatus(StrEnum):
    """The three states of the result file. Which kind of `fail` it is says the failure class."""

    SUCCESS = "success"
    NEED_HUMAN = "need_human"
    FAIL = "fail"


class Rate(Record):
    """A share with the interval it is known to."""

    count: int = Field(ge=0)
    of: int = Field(ge=0)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)

    @property
    def value(self) -> float | None:
        """None if there was nothing to take a share of."""
        return self.count / self.of if self.of else None


class Spread(Record):
    """How a quantity varies over episodes. All zero if there are none."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class Tally(Record):
    """Counts over some episodes, by how they ended."""

    episode_count: int = 0
    """What was asked for, unfinished episodes included."""
    success_count: int = 0
    autonomous_success_count: int = 0
    agent_assisted_success_count: int = 0
    human_assisted_success_count: int = 0
    need_human_count: int = 0
    fail_count: int = 0
    unfinished_count: int = 0
    intervention_count: int = 0
    """Episodes that got any help, won or not."""
    failures: dict[FailureClass, int] = Field(default_factory=dict)
    """Every `fail`, by class. The classes add up to `fail_count`."""

    @property
    def assisted_success_count(self) -> int:
        return self.agent_assisted_success_count + self.human_assisted_success_count

    @property
    def infrastructure_count(self) -> int:
        """Episodes without a verdict because something broke."""
        return sum(n for kind, n in self.failures.items() if kind in INFRASTRUCTURE)

    @property
    def verdict_count(self) -> int:
        """Episodes that say something about the agent.

        Not those that broke, wait for a person, or were already solved at reset.
        """
        invalid = self.failures.get(FailureClass.INVALID, 0)
        return self.success_count + self.fail_count - self.infrastructure_count - invalid


class TaskSummary(Record):
    """One environment with one task."""

    env_id: str
    task: str
    tally: Tally
    turns: Spread
    total_tokens: int


class BatchSummary(Record):
    """One batch. Rates over all count a broken episode as not solved; rates over results do not
    count it at all. Neither is the better one, so both are given."""

    tally: Tally
    success_over_results: Rate
    success_over_all: Rate
    autonomous_over_all: Rate
    assisted_over_all: Rate
    agent_assisted_over_all: Rate
    human_assisted_over_all: Rate
    intervention_over_all: Rate
    tasks: tuple[TaskSummary, ...]
    """In the order in which the manifest first names them."""
    tokens: TokenUsage
    turns: Spread
    tool_calls: Spread
    episode_duration_s: Spread
    cleanup_failed_count: int
    duration_s: float
    """Wall clock of the whole batch."""
    interrupted: bool
    provider: ProviderMetrics | None


def status_of(outcome: EpisodeOutcome) -> EpisodeStatus:
    match outcome:
        case EpisodeResult(success=True):
            return EpisodeStatus.SUCCESS
        case EpisodeResult(stop_reason=StopReason.NEED_HUMAN, success_at_reset=False):
            return EpisodeStatus.NEED_HUMAN
        case EpisodeResult() | EpisodeFailure():
            return EpisodeStatus.FAIL
        case _:
            assert_never(outcome)


def in_manifest_order(
    manifest: Manifest, outcomes: Iterable[EpisodeOutcome]
) -> list[tuple[EpisodeSpec, EpisodeOutcome | None]]:
    """Each spec with its outcome, found by content and not by label.

    A verdict outlasts a later breakage of the same episode; of two verdicts the later one counts.
    """
    last: dict[Digest, EpisodeOutcome] = {}
    for outcome in outcomes:
        before = last.get(outcome.spec_digest)
        if isinstance(outcome, EpisodeResult) or not isinstance(before, EpisodeResult):
            last[outcome.spec_digest] = outcome
    return [(spec, last.get(spec.content_digest)) for spec in manifest.episodes]


def summarise(
    manifest: Manifest,
    outcomes: Iterable[EpisodeOutcome],
    *,
    interval: IntervalOf,
    duration_s: float,
    interrupted: bool = False,
    provider: ProviderMetrics | None = None,
) -> BatchSummary:
    """Count a batch.

    Args:
        outcomes: In any order; those of other episodes are left out.
    """
    rows = in_manifest_order(manifest, outcomes)
    finished = [outcome for _, outcome in rows if outcome is not None]
    total = tally(outcome for _, outcome in rows)

    everything = [_without_repeat(spec) for spec, _ in rows]
    judged = [_without_repeat(spec) for spec, outcome in rows if _has_verdict(outcome)]

    def over_all(count: int) -> Rate:
        return _rate(count, everything, interval)

    return BatchSummary(
        tally=total,
        success_over_results=_rate(total.success_count, judged, interval),
        success_over_all=over_all(total.success_count),
        autonomous_over_all=over_all(total.autonomous_success_count),
        assisted_over_all=over_all(total.assisted_success_count),
        agent_assisted_over_all=over_all(total.agent_assisted_success_count),
        human_assisted_over_all=over_all(total.human_assisted_success_count),
        intervention_over_all=over_all(total.intervention_count),
        tasks=_by_task(rows),
        tokens=_sum_tokens(finished),
        turns=spread([each.usage.turns for each in finished]),
        tool_calls=spread([each.usage.tool_calls for each in finished]),
        episode_duration_s=spread([each.usage.duration_s for each in finished]),
        cleanup_failed_count=sum(each.cleanup.status is CleanupStatus.FAILED for each in finished),
        duration_s=duration_s,
        interrupted=interrupted,
        provider=provider,
    )


def tally(outcomes: Iterable[EpisodeOutcome | None]) -> Tally:
    """Count by how episodes ended; None is one that has not."""
    counts: Counter[str] = Counter()
    failures: Counter[FailureClass] = Counter()
    for outcome in outcomes:
        counts["episode_count"] += 1
        if outcome is None:
            counts["unfinished_count"] += 1
            continue
        counts["intervention_count"] += outcome.assistance.assisted
        status = status_of(outcome)
        counts[f"{status}_count"] += 1
        if status is EpisodeStatus.SUCCESS:
            counts[_helped(outcome)] += 1
        elif status is EpisodeStatus.FAIL:
            failures[outcome.failure_class] += 1
    ordered = {kind: failures[kind] for kind in FailureClass if kind in failures}
    return Tally(**counts, failures=ordered)


def _helped(outcome: EpisodeOutcome) -> str:
    help_ = outcome.assistance
    if help_.human_interventions:
        return "human_assisted_success_count"
    if help_.guidance_interventions:
        return "agent_assisted_success_count"
    return "autonomous_success_count"


def spread(values: Sequence[float]) -> Spread:
    """Percentiles are values that occurred (nearest rank)."""
    if not values:
        return Spread()
    ranked = sorted(values)

    def percentile(share: float) -> float:
        return ranked[max(0, math.ceil(share * len(ranked)) - 1)]

    return Spread(
        mean=math.fsum(ranked) / len(ranked),
        p50=percentile(0.5),
        p95=percentile(0.95),
        max=ranked[-1],
    )


def _rate(count: int, of: Sequence[Digest], interval: IntervalOf) -> Rate:
    bounds = interval(count, of)
    return Rate(count=count, of=len(of), low=bounds.low, high=bounds.high)


def _without_repeat(spec: EpisodeSpec) -> Digest:
    return (
        spec.model_copy(update={"repeat": 0}).content_digest
        if spec.repeat
        else (spec.content_digest)
    )


def _has_verdict(outcome: EpisodeOutcome | None) -> bool:
    """As `Tally.verdict_count` counts."""
    if outcome is None or not says_something(outcome):
        return False
    return status_of(outcome) is not EpisodeStatus.NEED_HUMAN


def _by_task(
    rows: Sequence[tuple[EpisodeSpec, EpisodeOutcome | None]],
) -> tuple[TaskSummary, ...]:
    grouped: dict[tuple[str, str], list[EpisodeOutcome | None]] = {}
    for spec, outcome in rows:
        grouped.setdefault((spec.env_id, spec.task), []).append(outcome)
    return tuple(
        TaskSummary(
            env_id=env_id,
            task=task,
            tally=tally(outcomes),
            turns=spread([each.usage.turns for each in outcomes if each is not None]),
            total_tokens=sum(
                each.usage.tokens.total_tokens for each in outcomes if each is not None
            ),
        )
        for (env_id, task), outcomes in grouped.items()
    )


def _sum_tokens(outcomes: Iterable[EpisodeOutcome]) -> TokenUsage:
    """In one pass: adding records pairwise would make a record per episode."""
    sources: Counter[str] = Counter()
    prompt = completion = total = 0
    for outcome in outcomes:
        tokens = outcome.usage.tokens
        prompt += tokens.prompt_tokens
        completion += tokens.completion_tokens
        total += tokens.total_tokens
        sources.update(tokens.sources)
    return TokenUsage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=total, sources=sources
    )
