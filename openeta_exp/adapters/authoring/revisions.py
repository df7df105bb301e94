"""The revisions of a grasp strategy that one search has made, and what they came to."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from openeta_exp.adapters.authoring.strategy_writing import stamped, written_revision
from openeta_exp.domain.artifact import Artifact, ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import AuthorReply
from openeta_exp.domain.counting import counted
from openeta_exp.domain.grasp_strategy import GraspStrategy, parse_strategy, render_strategy
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import digest
from openeta_exp.domain.training import EarlierCandidate, TrainingEvidence
from openeta_exp.errors import ArtifactError
from openeta_exp.wire.authoring import AuthoringError, parse_author

logger = logging.getLogger(__name__)

_LABELS = frozenset(
    {
        "strategy_id",
        "revision",
        "supersedes",
        "status",
        "description",
        "provenance",
        "lifecycle",
        "validated_scope",
    }
)
"""Fields that change nothing about a grasp."""
_ID_LENGTH = 96


@dataclass(slots=True, kw_only=True, eq=False)
class Revision:
    """A strategy that was tried, or the one in use.

    Attributes:
        parent: What it was made from; None for the strategy in use.
        scores: 1 for solved and 0 for not, by episode.
    """

    strategy: GraspStrategy
    artifact: Artifact
    rationale: str = ""
    parent: Revision | None = None
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.artifact.text

    @property
    def solved(self) -> int:
        return round(sum(self.scores.values()))

    @property
    def improves(self) -> bool:
        """Whether it solved more than what it was made from, of the episodes it was tried on."""
        if self.parent is None:
            return False
        before = sum(self.parent.scores.get(each, 0.0) for each in self.scores)
        return sum(self.scores.values()) > before


class Revisions:
    """Every revision once, by its text and by what it does.

    Each is a revision of the strategy in use, whatever it was made from: only one of them will be
    proposed.

    Attributes:
        seed: The strategy in use.
    """

    def __init__(self, evidence: TrainingEvidence, *, sample: Iterable[str], author: str) -> None:
        """
        Args:
            sample: Ids of the episodes that they are measured on.
        """
        self._evidence = evidence
        self._sample = frozenset(sample)
        self._author = author
        artifact = evidence.tree.of(ArtifactKind.GRASP_STRATEGY)[0]
        self.seed = Revision(strategy=evidence.tree.grasp_strategies()[0], artifact=artifact)
        self._by_text = {self.seed.text: self.seed}
        self._by_parameters: dict[str, Revision] = {}
        self._closed = {_parameters(self.seed.strategy), *_turned_down(evidence.earlier)}

    def __getitem__(self, text: str) -> Revision:
        return self._by_text[text]

    @property
    def tried(self) -> int:
        """How many there are with an outcome, besides the strategy in use."""
        return sum(bool(each.scores) for each in self._by_text.values() if each is not self.seed)

    @property
    def best(self) -> Revision | None:
        """The first of those that solved the most of the whole sample.

        None if none of them beats the strategy in use.
        """
        whole = [each for each in self._by_text.values() if self._is_measured(each)]
        best = max(whole, key=lambda each: each.solved, default=self.seed)
        return best if best.solved > self.seed.solved else None

    def fixed_by(self, revision: Revision) -> tuple[str, ...]:
        """Episodes that the strategy in use lost and this one solved."""
        before = self.seed.scores
        scores = revision.scores.items()
        return tuple(each for each, score in scores if score > before.get(each, 0.0))

    def tree(self, revision: Revision) -> ArtifactTree:
        """The tree in which a revision is tried."""
        tree = self._evidence.tree
        if revision is self.seed:
            return tree
        without = tree.without(ArtifactKind.GRASP_STRATEGY, self.seed.artifact.name)
        return without.with_changes([revision.artifact])

    def take(self, reply: AuthorReply, *, parent: Revision) -> Revision | None:
        """The revision that an answer writes.

        None if there is none, or if it is known what it comes to. What was discarded for a few
        episodes that it did not help in may be written again, and is then tried on others.
        """
        if reply.problem:
            logger.info("an answer cannot be used: %s", reply.problem)
            return None
        try:
            answer = parse_author(reply.text)
            written = written_revision(answer, parent.strategy)
        except (AuthoringError, ArtifactError) as error:
            logger.info("an answer cannot be used: %s", error)
            return None
        if written is None or (parameters := _parameters(written)) in self._closed:
            return None
        known = self._by_parameters.get(parameters)
        if known is not None:
            return None if self._is_measured(known) else known
        revision = self._made(written, parameters, rationale=answer.reason, parent=parent)
        self._by_text[revision.text] = self._by_parameters[parameters] = revision
        return revision

    def _made(
        self, written: GraspStrategy, parameters: str, *, rationale: str, parent: Revision
    ) -> Revision:
        base = self.seed.strategy
        name = f".r{base.revision + 1}.{self._author}-{parameters[:8]}"
        renamed = written.model_copy(
            update={
                "strategy_id": base.strategy_family_id[: _ID_LENGTH - len(name)] + name,
                "revision": base.revision + 1,
                "supersedes": base.strategy_id,
            }
        )
        strategy = stamped(renamed, self._evidence, author=self._author, rationale=rationale)
        artifact = Artifact(
            kind=ArtifactKind.GRASP_STRATEGY,
            name=strategy.strategy_id,
            text=render_strategy(strategy),
        )
        return Revision(strategy=strategy, artifact=artifact, rationale=rationale, parent=parent)

    def shown_with(self, parent: Revision) -> TrainingEvidence:
        """The evidence for who is to revise `parent`: with it in use, and what was discarded."""
        discarded = [
            EarlierCandidate(
                generation=self._evidence.generation,
                kind=ArtifactKind.GRASP_STRATEGY,
                name=each.artifact.name,
                content_digest=each.artifact.content_digest,
                text=each.text,
                stop="discarded_in_training",
                reason=f"solved {each.solved} of "
                f"{counted(len(each.scores), 'training episode')}, no more than what it revises",
            )
            for each in self._by_text.values()
            if each is not self.seed and each.scores and not each.improves
        ]
        return self._evidence.model_copy(
            update={
                "tree": self.tree(parent),
                "earlier": (*self._evidence.earlier, *discarded),
            }
        )

    def _is_measured(self, revision: Revision) -> bool:
        """On the whole sample."""
        return revision.scores.keys() >= self._sample


def _parameters(strategy: GraspStrategy) -> str:
    """Digest of what decides a grasp."""
    fields: JsonObject = strategy.model_dump(mode="json", exclude=set(_LABELS))
    return digest(fields)


def _turned_down(earlier: Sequence[EarlierCandidate]) -> set[str]:
    return {
        _parameters(parse_strategy(each.text, source=each.name))
        for each in earlier
        if each.kind is ArtifactKind.GRASP_STRATEGY and each.stop != "promoted"
    }
