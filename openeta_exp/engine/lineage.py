"""What an experiment's journal already says about its generations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import AuthorReply, Proposal, Review
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import (
    AuthorAnswered,
    BatchStarted,
    CandidateProposed,
    CandidateReviewed,
    ComparisonEnded,
    EpisodeEnded,
    Event,
    GenerationEnded,
    GenerationStarted,
    Promoted,
    Published,
)
from openeta_exp.domain.generation import GenerationResult
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.lineage import GenerationRecord, check_unchanged
from openeta_exp.domain.pair import PairKey
from openeta_exp.domain.training import EarlierCandidate
from openeta_exp.domain.verdict import Effect
from openeta_exp.engine.batch import Observers
from openeta_exp.errors import SettingsError

Step = tuple[int, ArtifactKind]
"""A lane of a generation."""
AUTHORING = "-author"
"""Ends the phase of every batch that an author asks for."""


class LineageHistory:
    """The steps that are done."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.proposals: dict[Step, Proposal] = {}
        self.replies: dict[Step, list[tuple[Digest, AuthorReply]]] = {}
        """What authors were answered, in order, by the digest of what they asked."""
        self.authoring: dict[str, list[EpisodeOutcome]] = {}
        """What episodes that authors ran came to, in order, by batch."""
        self.reviews: dict[Step, Review] = {}
        self.comparisons: dict[str, ComparisonEnded] = {}
        self.begun: dict[int, GenerationRecord] = {}
        """What generations started from, as it was when they did."""
        self.generations: dict[int, GenerationResult] = {}
        self.promoted: set[str] = set()
        """Comparisons whose promotion is on record."""
        self.published: set[str] = set()
        """Comparisons whose promotion the registry has answered to."""
        self._trees: dict[Digest, ArtifactTree] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Remember a fact. Facts come in the order of the journal."""
        match event:
            case GenerationStarted(baseline=tree, generation=generation):
                self._trees[tree.content_digest] = tree
                self.begun.setdefault(generation, _record(event))
            case Promoted(promotion=promotion, tree=tree):
                self._trees[tree.content_digest] = tree
                self.promoted.add(promotion.comparison_id)
            case Published(comparison_id=comparison_id):
                self.published.add(comparison_id)
            case BatchStarted(batch_id=batch_id, phase=phase) if phase.endswith(AUTHORING):
                self.authoring.setdefault(batch_id, [])
            case EpisodeEnded(batch_id=batch_id, outcome=outcome) if batch_id in self.authoring:
                self.authoring[batch_id].append(outcome)
            case AuthorAnswered(generation=generation, lane=lane):
                answered = self.replies.setdefault((generation, lane), [])
                answered.append((event.request_digest, event.reply))
            case CandidateProposed(generation=generation, lane=lane, proposal=proposal):
                self.proposals[generation, lane] = proposal
            case CandidateReviewed(generation=generation, lane=lane, review=review):
                self.reviews[generation, lane] = review
            case ComparisonEnded(comparison_id=comparison_id):
                self.comparisons[comparison_id] = event
            case GenerationEnded(result=result):
                self.generations[result.generation] = result
            case _:
                pass

    def check_begun(self, record: GenerationRecord) -> None:
        """By the journal: what it holds was measured then, and the folder can be deleted.

        Raises:
            SettingsError: The generation has begun from something else.
        """
        before = self.begun.get(record.generation)
        if before is not None:
            check_unchanged(before, record)

    def starts(self, first: ArtifactTree) -> Iterator[tuple[int, ArtifactTree]]:
        """What each generation started from, or will next, in order; the first one with `first`."""
        yield 0, first
        for ended in sorted(self.generations):
            yield ended + 1, self.start_of(ended + 1)

    def start_of(self, generation: int) -> ArtifactTree:
        """What a later generation starts from: the tree its predecessor ended with.

        Raises:
            SettingsError: The predecessor has not ended.
        """
        before = self.generations.get(generation - 1)
        if before is None:
            raise SettingsError(
                f"generation = {generation}: starts from what generation {generation - 1} "
                "promotes, which has not ended; run that one first, or leave generation out to "
                "run all of them"
            )
        return self._trees[before.next_baseline_digest]

    @property
    def confirmation(self) -> Effect | None:
        """What the last tree gains over the first, if their comparison has ended."""
        last = max(self.generations, default=None)
        verdicts = (
            each.verdict
            for each in self.comparisons.values()
            if each.stage == "confirmation" and each.generation == last
        )
        return next((verdict.effect for verdict in verdicts if verdict is not None), None)

    @property
    def awaits_confirmation(self) -> bool:
        """Something was promoted, and the last tree was not compared with the first one yet."""
        if not self.generations or self.confirmation is not None:
            return False
        first, last = (self.generations[end(self.generations)] for end in (min, max))
        return first.baseline_digest != last.next_baseline_digest

    def earlier(self, *, before: int) -> tuple[EarlierCandidate, ...]:
        """Candidates of earlier generations and what became of them, oldest first."""
        found: list[EarlierCandidate] = []
        for generation in sorted(number for number in self.generations if number < before):
            for lane in self.generations[generation].lanes:
                if lane.candidate is not None:
                    found.append(
                        EarlierCandidate(
                            generation=generation,
                            kind=lane.kind,
                            name=lane.candidate.artifact.name,
                            content_digest=lane.candidate.content_digest,
                            text=lane.candidate.artifact.text,
                            stop=lane.stop.value,
                            reason=lane.reason,
                        )
                    )
        return tuple(found)

    def tests(self, *, before: str) -> tuple[bool, ...]:
        """Which held-out comparisons before this one promoted, in order: the ledger's history."""
        return tuple(
            event.verdict.promotes for event in self._held_out(before) if event.verdict is not None
        )

    def spent_keys(self, *, before: str) -> tuple[PairKey, ...]:
        """Held-out keys that comparisons before this one have used."""
        return tuple(pair.key.unit for event in self._held_out(before) for pair in event.pairs)

    def _held_out(self, before: str) -> list[ComparisonEnded]:
        ended = [event for event in self.comparisons.values() if event.stage == "held-out"]
        ordered = sorted(ended, key=lambda event: event.comparison_id)
        return [event for event in ordered if event.comparison_id < before]


def _record(started: GenerationStarted) -> GenerationRecord:
    return GenerationRecord(
        experiment_id=started.experiment_id,
        generation=started.generation,
        baseline_digest=started.baseline.content_digest,
        behaviour=started.behaviour,
        design=started.design,
    )


class Lineage(LineageHistory):
    """A history that is written on, so that a restarted command asks nobody twice."""

    def __init__(self, observers: Observers) -> None:
        super().__init__(event for _, event in observers.journal.events())
        self._observers = observers

    def tell(self, event: Event) -> None:
        """Journal a fact and remember it. Raises: StoreError."""
        self._observers.tell(event)
        self.take(event)
