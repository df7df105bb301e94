"""What a journal's facts add up to, lineage by lineage: generations, comparisons, promotions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import Candidate, Promotion, Proposal, Review
from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import (
    AuthorAnswered,
    CandidateProposed,
    CandidateReviewed,
    ComparisonEnded,
    ComparisonPlanned,
    Event,
    GenerationEnded,
    GenerationStarted,
    LineageEvent,
    Promoted,
    Published,
)
from openeta_exp.domain.generation import GenerationResult
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.publication import Receipt
from openeta_exp.domain.record import Record
from openeta_exp.domain.verdict import GateVerdict, Ground

CONFIRMATION = "confirmation"
_OF_A_LANE = ("canary", "held-out")


class Comparison(Record):
    """Everything about one comparison so far."""

    planned: ComparisonPlanned
    """As it was announced last; a resumed one is announced again."""
    first_planned_s: float
    lane: ArtifactKind | None
    """None for what no lane asked for, such as the confirmation."""
    candidate: Candidate | None
    baseline: ArtifactTree
    tested: ArtifactTree
    """The baseline with the candidate; of a confirmation, the last tree of the lineage."""
    ended: ComparisonEnded | None = None
    promotion: Promotion | None = None
    published: Receipt | None = None

    @property
    def comparison_id(self) -> str:
        return self.planned.comparison_id

    @property
    def verdict(self) -> GateVerdict | None:
        return None if self.ended is None else self.ended.verdict

    @property
    def sentence(self) -> str:
        """What came of it, in one line."""
        if self.ended is None:
            return f"under way: up to {counted(self.planned.scheduled_pairs, 'pair')}"
        if self.ended.verdict is not None and self.planned.stage == CONFIRMATION:
            return estimate(self.ended.verdict)
        if self.ended.verdict is not None:
            return self.ended.verdict.sentence()
        canary = self.ended.canary
        if canary is None:
            return "ended"
        found = "; ".join(canary.problems) or "passed"
        return (
            f"{found}: candidate solved {canary.candidate_successes} and baseline "
            f"{canary.baseline_successes} of {canary.pairs}"
        )


@dataclass(slots=True, kw_only=True)
class LaneStory:
    """One artifact kind's way through a generation, as far as it has come."""

    kind: ArtifactKind
    proposal: Proposal
    review: Review | None = None
    comparisons: list[str] = field(default_factory=list)
    """Ids, in the order in which they were planned."""


@dataclass(slots=True, kw_only=True)
class GenerationStory:
    """One generation, as far as it has come."""

    number: int
    baseline: ArtifactTree
    lanes: dict[ArtifactKind, LaneStory] = field(default_factory=dict)
    result: GenerationResult | None = None


@dataclass(slots=True, kw_only=True)
class LineageStory:
    """One experiment's generations.

    Attributes:
        first_started_s: Unix time of its first fact; with the id it names the lineage, also
            where several journals are shown together.
        tree: The baseline at this moment.
        trees: Every tree that was the baseline or was tested, by digest.
    """

    experiment_id: str
    first_started_s: float
    first: ArtifactTree
    tree: ArtifactTree
    generations: dict[int, GenerationStory] = field(default_factory=dict)
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    trees: dict[Digest, ArtifactTree] = field(default_factory=dict)

    @property
    def promotions(self) -> tuple[Promotion, ...]:
        """In order."""
        found = (each.promotion for each in self.comparisons.values())
        return tuple(each for each in found if each is not None)

    @property
    def claimed_gain(self) -> float:
        """Sum of the promoted effects, as rates. Selected, hence optimistic."""
        return sum(
            each.verdict.effect.difference
            for each in self.comparisons.values()
            if each.promotion is not None and each.verdict is not None
        )

    @property
    def confirmation(self) -> Comparison | None:
        return next(
            (each for each in self.comparisons.values() if each.planned.stage == CONFIRMATION), None
        )

    def lane(self, generation: int, kind: ArtifactKind) -> LaneStory | None:
        known = self.generations.get(generation)
        return None if known is None else known.lanes.get(kind)

    def promoting(self, digest: Digest) -> Comparison | None:
        """The comparison whose promotion made this tree, or None for a first one."""
        for each in self.comparisons.values():
            if each.promotion is not None and each.promotion.to_digest == digest:
                return each
        return None

    def remember(self, tree: ArtifactTree) -> None:
        self.trees.setdefault(tree.content_digest, tree)


class Lineages:
    """Facts in the order of the journal -> lineages in the order in which they began."""

    def __init__(self) -> None:
        self._stories: dict[str, LineageStory] = {}

    @property
    def stories(self) -> tuple[LineageStory, ...]:
        return tuple(self._stories.values())

    def of(self, experiment_id: str) -> LineageStory | None:
        return self._stories.get(experiment_id)

    def add(self, event: Event) -> LineageStory | None:
        """Take one fact; return the lineage it belongs to, or None for a batch's."""
        match event:
            case GenerationStarted():
                return self._start(event)
            case GenerationEnded(result=result):
                story = self._stories.get(result.experiment_id)
            case (
                AuthorAnswered()
                | CandidateProposed()
                | CandidateReviewed()
                | ComparisonPlanned()
                | ComparisonEnded()
                | Promoted()
                | Published()
            ):
                story = self._stories.get(event.experiment_id)
            case _:
                return None
        if story is not None:
            _go_on(story, event)
        return story

    def _start(self, event: GenerationStarted) -> LineageStory:
        story = self._stories.get(event.experiment_id)
        if story is None:
            story = LineageStory(
                experiment_id=event.experiment_id,
                first_started_s=event.at_s,
                first=event.baseline,
                tree=event.baseline,
            )
            self._stories[event.experiment_id] = story
        story.tree = event.baseline
        story.remember(event.baseline)
        story.generations.setdefault(
            event.generation,
            GenerationStory(number=event.generation, baseline=event.baseline),
        )
        return story


def _go_on(story: LineageStory, event: LineageEvent) -> None:
    match event:
        case GenerationStarted() | AuthorAnswered():
            pass
        case CandidateProposed(generation=number, lane=kind, proposal=proposal):
            generation = story.generations.get(number)
            if generation is not None:
                generation.lanes[kind] = LaneStory(kind=kind, proposal=proposal)
        case CandidateReviewed(generation=number, lane=kind, review=review):
            lane = story.lane(number, kind)
            if lane is not None:
                lane.review = review
        case ComparisonPlanned():
            _plan(story, event)
        case ComparisonEnded(comparison_id=comparison_id):
            _change(story, comparison_id, ended=event)
        case Promoted():
            _promote(story, event)
        case Published(comparison_id=comparison_id, receipt=receipt):
            _change(story, comparison_id, published=receipt)
        case GenerationEnded(result=result):
            over = story.generations.get(result.generation)
            if over is not None:
                over.result = result
        case _:
            assert_never(event)


def _promote(story: LineageStory, event: Promoted) -> None:
    known = story.comparisons.get(event.promotion.comparison_id)
    if known is not None and known.promotion is None:
        _change(story, known.comparison_id, promotion=event.promotion)
        story.tree = event.tree
        story.remember(event.tree)


def _plan(story: LineageStory, event: ComparisonPlanned) -> None:
    known = story.comparisons.get(event.comparison_id)
    if known is not None:
        _change(story, event.comparison_id, planned=event)
        return
    generation = story.generations.get(event.generation)
    lane = None
    if generation is not None and event.stage in _OF_A_LANE:
        # Lanes take turns, so what is compared is what was proposed last.
        lane = next(reversed(generation.lanes.values()), None)
    candidate = None if lane is None else lane.proposal.candidate
    if lane is not None:
        lane.comparisons.append(event.comparison_id)
    tested = story.tree if candidate is None else candidate.applied_to(story.tree)
    story.remember(tested)
    story.comparisons[event.comparison_id] = Comparison(
        planned=event,
        first_planned_s=event.at_s,
        lane=None if lane is None else lane.kind,
        candidate=candidate,
        baseline=story.first if event.stage == CONFIRMATION else story.tree,
        tested=tested,
    )


def estimate(verdict: GateVerdict) -> str:
    """What a confirmation says, in one line, with whatever else is to be known of its pairs."""
    effect = verdict.effect
    known = (Ground.SAFETY, Ground.CONTRACT, Ground.DIFFERENTIAL_EXCLUSION, Ground.INCOMPARABLE)
    notes = [reason.message for reason in verdict.reasons if reason.ground in known]
    low, high = 100 * effect.tango_95.low, 100 * effect.tango_95.high
    return (
        f"{counted(100 * effect.difference, 'point', spec='+.0f')} (95 % CI "
        f"{low:+.0f}..{high:+.0f}) on "
        f"{counted(effect.pairs, 'fresh pair')}, last against first baseline; an estimate that "
        + "; ".join(["no gate selected", *notes])
    )


def _change(story: LineageStory, comparison_id: str, **changes: object) -> None:
    known = story.comparisons.get(comparison_id)
    if known is not None:
        story.comparisons[comparison_id] = known.model_copy(update=changes)
