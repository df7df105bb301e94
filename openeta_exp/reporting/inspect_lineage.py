"""What a journal says of its generations, for a person or for a program."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.candidate import Effort, Promotion
from openeta_exp.domain.counting import counted
from openeta_exp.domain.generation import LaneStop
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.lineage_story import (
    Comparison,
    GenerationStory,
    LaneStory,
    LineageStory,
)
from openeta_exp.domain.publication import Receipt
from openeta_exp.domain.record import Record
from openeta_exp.domain.verdict import Decision, Effect

_DIGEST = 8


class InspectedComparison(Record):
    """One comparison; its pairs are in the journal and in MLflow."""

    comparison_id: str
    stage: str
    ended: bool
    scheduled_pairs: int
    sentence: str
    decision: Decision | None
    """None for a canary, for what is under way, and for a confirmation."""
    reasons: tuple[str, ...]
    effect: Effect | None
    p_value: float | None
    alpha: float | None
    e_value: float | None
    tokens: int | None


class InspectedLane(Record):
    """One artifact kind's way through a generation, as far as it has come."""

    kind: ArtifactKind
    proposal: str
    """What the author answered, in one line."""
    effort: Effort
    """What that took."""
    candidate: str | None
    candidate_digest: Digest | None
    review: str | None
    comparisons: tuple[InspectedComparison, ...]
    stop: LaneStop | None
    """None while it is under way."""
    reason: str
    promotion: Promotion | None
    published: Receipt | None


class InspectedGeneration(Record):
    number: int
    baseline_digest: Digest
    train_episodes: int | None
    """None while it is under way."""
    train_successes: int | None
    lanes: tuple[InspectedLane, ...]
    next_baseline_digest: Digest | None


class InspectedLineage(Record):
    """An experiment's generations at one moment."""

    experiment_id: str
    first_digest: Digest
    baseline_digest: Digest
    """What a next generation would start from now."""
    generations: tuple[InspectedGeneration, ...]
    promotions: tuple[Promotion, ...]
    claimed_gain: float
    """Sum of the promoted effects, as rates. Selected, hence optimistic: see `confirmation`."""
    confirmation: InspectedComparison | None


def inspect_lineage(story: LineageStory) -> InspectedLineage:
    confirmation = story.confirmation
    return InspectedLineage(
        experiment_id=story.experiment_id,
        first_digest=story.first.content_digest,
        baseline_digest=story.tree.content_digest,
        generations=tuple(_generation(story, each) for each in story.generations.values()),
        promotions=story.promotions,
        claimed_gain=story.claimed_gain,
        confirmation=None if confirmation is None else _comparison(confirmation, decides=False),
    )


def _generation(story: LineageStory, generation: GenerationStory) -> InspectedGeneration:
    result = generation.result
    return InspectedGeneration(
        number=generation.number,
        baseline_digest=generation.baseline.content_digest,
        train_episodes=None if result is None else result.train_episodes,
        train_successes=None if result is None else result.train_successes,
        lanes=tuple(_lane(story, generation, each) for each in generation.lanes.values()),
        next_baseline_digest=None if result is None else result.next_baseline_digest,
    )


def _lane(story: LineageStory, generation: GenerationStory, lane: LaneStory) -> InspectedLane:
    candidate = lane.proposal.candidate
    review = lane.review
    compared = [story.comparisons[each] for each in lane.comparisons]
    ended = None
    if generation.result is not None:
        ended = next((each for each in generation.result.lanes if each.kind is lane.kind), None)
    proposal = lane.proposal.reason
    if candidate is not None:
        why = f" ({candidate.rationale})" if candidate.rationale else ""
        proposal = f"{candidate.artifact.name} by {candidate.origin}{why}"
    return InspectedLane(
        kind=lane.kind,
        proposal=proposal + lane.proposal.remark,
        effort=lane.proposal.effort,
        candidate=None if candidate is None else candidate.artifact.name,
        candidate_digest=None if candidate is None else candidate.content_digest,
        review=None if review is None else f"{review.reviewer}: {review.decision}: {review.reason}",
        comparisons=tuple(_comparison(each, decides=True) for each in compared),
        stop=None if ended is None else ended.stop,
        reason="" if ended is None else ended.reason,
        promotion=next((each.promotion for each in compared if each.promotion is not None), None),
        published=next((each.published for each in compared if each.published is not None), None),
    )


def _comparison(comparison: Comparison, *, decides: bool) -> InspectedComparison:
    verdict = comparison.verdict
    tokens = None
    if verdict is not None:
        tokens = verdict.baseline_cost.tokens + verdict.candidate_cost.tokens
    return InspectedComparison(
        comparison_id=comparison.comparison_id,
        stage=comparison.planned.stage,
        ended=comparison.ended is not None,
        scheduled_pairs=comparison.planned.scheduled_pairs,
        sentence=comparison.sentence,
        decision=verdict.decision if verdict is not None and decides else None,
        reasons=verdict.codes if verdict is not None and decides else (),
        effect=None if verdict is None else verdict.effect,
        p_value=None if verdict is None else verdict.p_value,
        alpha=None if verdict is None else verdict.alpha,
        e_value=None if verdict is None else verdict.e_value,
        tokens=tokens,
    )


def lineage_lines(lineage: InspectedLineage) -> list[RenderableType]:
    """A paragraph a generation, and where the lineage stands."""
    lines: list[RenderableType] = []
    for generation in lineage.generations:
        lines += _generation_lines(generation)
    count = len(lineage.promotions)
    lines += [
        Text(""),
        Text(
            f"{lineage.experiment_id}: baseline {lineage.first_digest[:_DIGEST]} -> "
            f"{lineage.baseline_digest[:_DIGEST]}, {counted(count, 'promotion')}"
            + (
                f" claiming {counted(100 * lineage.claimed_gain, 'point', spec='+.0f')}"
                if count
                else ""
            ),
            style="bold",
        ),
    ]
    if lineage.confirmation is not None:
        lines.append(Text(f"confirmation: {lineage.confirmation.sentence}"))
    return lines


def _generation_lines(generation: InspectedGeneration) -> list[RenderableType]:
    title = f"generation {generation.number} from {generation.baseline_digest[:_DIGEST]}"
    if generation.next_baseline_digest is None:
        title += ": under way"
    else:
        title += (
            f": trained {generation.train_successes}/{generation.train_episodes}, "
            f"ends with {generation.next_baseline_digest[:_DIGEST]}"
        )
    lines: list[RenderableType] = [Text(""), Text(title, style="bold")]
    for lane in generation.lanes:
        lines.append(Text(f"  {lane.kind}: {lane.proposal}"))
        if lane.effort.tokens.total_tokens:
            lines.append(Text(f"    author    {lane.effort}"))
        if lane.review is not None:
            lines.append(Text(f"    review    {lane.review}"))
        lines += [Text(f"    {each.stage:<9} {each.sentence}") for each in lane.comparisons]
        if lane.promotion is not None:
            lines.append(Text(f"    promoted  {lane.promotion.name}", style="green"))
        elif lane.stop not in (None, LaneStop.NO_CANDIDATE):
            lines.append(Text(f"    stopped   {lane.stop}"))
        if lane.published is not None:
            lines.append(Text(f"    registry  {lane.published.sentence}"))
    return lines
