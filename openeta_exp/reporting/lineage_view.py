"""What became of generations: a line for each step, and a table at the end."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.candidate import Effort
from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import (
    CandidateProposed,
    CandidateReviewed,
    ComparisonEnded,
    ComparisonPlanned,
    Event,
    GenerationEnded,
    GenerationStarted,
    Promoted,
    Published,
)
from openeta_exp.domain.generation import ExperimentResult, LaneResult
from openeta_exp.domain.lineage_story import estimate
from openeta_exp.domain.publication import Receipt
from openeta_exp.domain.verdict import GateVerdict

_DIGEST = 8


def event_line(event: Event) -> str | None:  # noqa: C901 - one case per kind of fact
    """One line for a step of a lineage; None for what the progress display shows already."""
    match event:
        case GenerationStarted(generation=generation, baseline=baseline):
            return f"generation {generation} starts from {baseline.content_digest[:_DIGEST]}"
        case CandidateProposed(lane=lane, proposal=proposal) if proposal.candidate is not None:
            candidate = proposal.candidate
            return (
                f"{lane}: {candidate.origin} proposes {candidate.artifact.name}"
                + (f" ({candidate.rationale})" if candidate.rationale else "")
                + proposal.remark
                + _effort(proposal.effort)
            )
        case CandidateProposed(lane=lane, proposal=proposal):
            reason = f"{proposal.reason}{proposal.remark}"
            return f"{lane}: no candidate: {reason}{_effort(proposal.effort)}"
        case CandidateReviewed(lane=lane, review=review):
            return f"{lane}: {review.reviewer} says {review.decision}: {review.reason}"
        case ComparisonPlanned(stage=stage, scheduled_pairs=pairs, schedule_digest=digest):
            return f"{stage}: up to {counted(pairs, 'pair')}, schedule {digest[:_DIGEST]}"
        case ComparisonEnded(canary=canary) if canary is not None:
            found = "; ".join(canary.problems) or "passed"
            return (
                f"canary: {found}; candidate solved {canary.candidate_successes} and baseline "
                f"{canary.baseline_successes} of {canary.pairs}"
            )
        case ComparisonEnded(stage="confirmation", verdict=verdict) if verdict is not None:
            return f"confirmation: {estimate(verdict)}"
        case ComparisonEnded(flakiness=flakiness) if flakiness is not None:
            alarm = "; ALARM: the two are not exchangeable" if flakiness.alarm else ""
            return (
                f"a-a: the baseline solves {flakiness.success_rate:.0%} and disagrees with itself "
                f"in {flakiness.discordance:.0%} of {counted(flakiness.pairs, 'pair')}{alarm}"
            )
        case ComparisonEnded(stage=stage, verdict=verdict) if verdict is not None:
            return f"{stage}: {verdict.sentence()}"
        case Promoted(promotion=promotion):
            return (
                f"promoted {promotion.name}: {promotion.from_digest[:_DIGEST]} -> "
                f"{promotion.to_digest[:_DIGEST]}"
            )
        case Published(receipt=receipt):
            return f"registry: {receipt.sentence}"
        case GenerationEnded(result=result):
            after = result.next_baseline_digest[:_DIGEST]
            return f"generation {result.generation} ends with {after}"
        case _:
            return None


def _effort(effort: Effort) -> str:
    """What an author that tries things out has taken; others take what an answer takes."""
    return f"; it took {effort}" if effort.episodes else ""


def lineage_view(result: ExperimentResult, receipts: Mapping[str, Receipt]) -> RenderableType:
    """Table by generation and lane, what was published, the confirmation, and the cost.

    Args:
        receipts: What a shared registry answered, by the comparison that was won.
    """
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("generation")
    table.add_column("train", justify="right")
    table.add_column("kind")
    table.add_column("candidate", overflow="fold")
    table.add_column("canary")
    table.add_column("held-out", overflow="fold")
    table.add_column("outcome", overflow="fold")
    for generation in result.generations:
        train = f"{generation.train_successes}/{generation.train_episodes}"
        for place, lane in enumerate(generation.lanes):
            table.add_row(
                str(generation.generation) if place == 0 else "",
                train if place == 0 else "",
                lane.kind.value,
                "-" if lane.candidate is None else lane.candidate.artifact.name,
                _canary(lane),
                "-" if lane.held_out is None else _pairs(lane.held_out),
                _outcome(lane),
            )
    generations = counted(len(result.generations), "generation")
    promotions = counted(sum(len(each.promotions) for each in result.generations), "promotion")
    lines: list[RenderableType] = [
        Text(""),
        Text(f"{result.experiment_id}: {generations}", style="bold"),
        table,
        Text(
            f"baseline {result.first_digest[:_DIGEST]} -> {result.last_digest[:_DIGEST]}, "
            f"{promotions}"
        ),
        *(
            Text(f"registry: {receipts[promotion.comparison_id].sentence}")
            for generation in result.generations
            for promotion in generation.promotions
            if promotion.comparison_id in receipts
        ),
        Text(_confirmation(result)),
        Text(_cost(result), style="dim"),
    ]
    return Group(*lines)


def _canary(lane: LaneResult) -> str:
    canary = lane.canary
    if canary is None:
        return "-"
    return f"{canary.baseline_successes} -> {canary.candidate_successes} of {canary.pairs}"


def _pairs(verdict: GateVerdict) -> str:
    effect = verdict.effect
    return f"{effect.wins} fixed, {effect.losses} regressed of {effect.pairs}"


def _outcome(lane: LaneResult) -> str:
    if lane.held_out is not None:
        return f"{lane.held_out.decision}: {', '.join(lane.held_out.codes)}"
    if lane.candidate is None:
        return lane.stop.value.replace("_", " ")
    return f"{lane.stop}: {lane.reason}" if lane.reason else lane.stop.value


def _confirmation(result: ExperimentResult) -> str:
    if result.confirmation is None:
        return f"confirmation: none, {result.confirmation_skipped}"
    effect = result.confirmation
    bounds = effect.tango_95
    return (
        f"confirmation on {counted(effect.pairs, 'fresh pair')}, last against first baseline: "
        f"{counted(100 * effect.difference, 'point', spec='+.0f')} (95 % CI "
        f"{100 * bounds.low:+.0f} to {100 * bounds.high:+.0f}); an estimate that no gate selected"
    )


def _cost(result: ExperimentResult) -> str:
    price = "price not known" if result.price_usd is None else f"${result.price_usd:,.2f}"
    cut = f" ({result.tokens_cut_short:,} of them cut short)" if result.tokens_cut_short else ""
    said = (
        f"{result.wall_s / 60:.1f} min in this run; {counted(result.tokens, 'token')} in all{cut}, "
        f"{price}"
    )
    if result.tokens_unanswered:
        said += (
            f"; up to {counted(result.tokens_unanswered, 'token')} more in calls that were cut off"
        )
    return said
