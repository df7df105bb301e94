"""GEPA over the text of one grasp strategy, its metric being training episodes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gepa.api import optimize
from gepa.core.adapter import EvaluationBatch, ProposalFn
from gepa.core.state import GEPAState
from pydantic import JsonValue

from openeta_exp.adapters.authoring.strategy_revision import (
    revision_request,
    stamped,
    written_revision,
)
from openeta_exp.domain.artifact import Artifact, ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import AuthorReply
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.grasp_strategy import GraspStrategy, parse_strategy, render_strategy
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import ModelRequest
from openeta_exp.domain.record import canonical_json, digest
from openeta_exp.domain.training import (
    EarlierCandidate,
    TrainingEpisode,
    TrainingEvidence,
    training_episode,
)
from openeta_exp.errors import ArtifactError, OpenEtaError
from openeta_exp.wire.authoring import AuthoringError, parse_author

logger = logging.getLogger(__name__)

COMPONENT = "grasp_strategy"
"""The one text component of a candidate."""
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
_SPARE_ITERATIONS = 2
_ID_LENGTH = 96

Texts = dict[str, str]
Rows = Mapping[str, Sequence[Mapping[str, JsonValue]]]


class Steps(Protocol):
    """What costs something, one at a time. None: there is no allowance left for it."""

    @property
    def episodes_left(self) -> int: ...

    def run(
        self, tree: ArtifactTree, episode_ids: Sequence[str]
    ) -> tuple[EpisodeOutcome, ...] | None: ...

    def ask(self, request: ModelRequest) -> AuthorReply | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    minibatch: int
    seed: int


@dataclass(slots=True, kw_only=True, eq=False)
class Revision:
    """A strategy that was tried, or the one in use.

    Attributes:
        parent: What it was made from; None for the strategy in use.
        scores: 1 for solved and 0 for not, by episode.
    """

    strategy: GraspStrategy
    text: str
    rationale: str = ""
    parent: Revision | None = None
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def solved(self) -> int:
        return round(sum(self.scores.values()))


class _OverError(Exception):
    """Nothing more can be evaluated; leaves GEPA's loop, which has no other way out of a step."""


class _Log:
    """Takes GEPA's own account of what it does, which it would print otherwise."""

    def log(self, message: str) -> None:
        logger.debug("%s", message)


class StrategySearch:
    """One run of GEPA; also its adapter, between a text and the episodes that try it.

    All steps are functions of the seed and of what `steps` answers, so that the same search on a
    bench that remembers goes the same way again.

    Attributes:
        failure: What ended the search from outside, if something did.
        ended_by: Why it ended, in a few words.
        tried: Revisions that were tried on at least one episode.
    """

    propose_new_texts: ProposalFn | None = None

    def __init__(
        self,
        evidence: TrainingEvidence,
        in_use: GraspStrategy,
        sample: Sequence[TrainingEpisode],
        *,
        steps: Steps,
        limits: SearchLimits,
        author: str,
    ) -> None:
        self._evidence = evidence
        self._in_use = in_use
        self._sample = {episode.episode_id: episode for episode in sample}
        self._steps = steps
        self._limits = limits
        self._author = author
        artifact = evidence.tree.get(ArtifactKind.GRASP_STRATEGY, in_use.strategy_id)
        assert artifact is not None, "the strategy in use is part of the tree"
        self.seed = Revision(strategy=in_use, text=artifact.text)
        self._by_text: dict[str, Revision] = {artifact.text: self.seed}
        self._by_parameters: dict[str, Revision] = {}
        self._closed = {_parameters(in_use), *_turned_down(evidence.earlier)}
        self._idle = 0
        self._left_before: int | None = None
        self.failure: OpenEtaError | None = None
        self.ended_by = ""

    @property
    def tried(self) -> int:
        return sum(bool(each.scores) for each in self._by_text.values()) - 1

    @property
    def best(self) -> Revision | None:
        """The first of those that solved the most of the whole sample; None if none beats the
        strategy in use."""
        whole = [each for each in self._by_text.values() if self._is_measured(each)]
        best = max(whole, key=lambda each: each.solved, default=self.seed)
        return best if best.solved > self.seed.solved else None

    def fixed_by(self, revision: Revision) -> tuple[str, ...]:
        """Episodes that the strategy in use lost and this one solved."""
        return tuple(
            each
            for each, score in revision.scores.items()
            if score > self.seed.scores.get(each, 0.0)
        )

    def run(self) -> None:
        """Search until the allowance is used up or nothing new comes. Blocks."""
        ids = list(self._sample)
        try:
            optimize(
                seed_candidate={COMPONENT: self.seed.text},
                trainset=ids,
                valset=ids,
                adapter=self,
                custom_candidate_proposer=self.propose,
                reflection_minibatch_size=min(self._limits.minibatch, len(ids)),
                stop_callbacks=self._should_stop,
                seed=self._limits.seed,
                logger=_Log(),
                track_best_outputs=False,
                raise_on_exception=True,
            )
        except _OverError:
            self.ended_by = self.ended_by or "the allowance is used up"
        except OpenEtaError as error:
            self.failure = error

    def evaluate(
        self, batch: list[str], candidate: Texts, capture_traces: bool = False
    ) -> EvaluationBatch[TrainingEpisode | None, bool]:
        """Run what has no verdict yet. An episode without one counts against the revision: that
        can hide a good one, and promotes none."""
        revision = self._by_text[candidate[COMPONENT]]
        ids = list(dict.fromkeys(batch))
        outcomes = self._steps.run(self._tree(revision), ids)
        if outcomes is None:
            raise _OverError
        episodes: dict[str, TrainingEpisode | None] = {}
        for each, outcome in zip(ids, outcomes, strict=True):
            revision.scores[each], episodes[each] = 0.0, None
            if isinstance(outcome, EpisodeResult):
                revision.scores[each] = float(outcome.success)
                episodes[each] = training_episode(outcome, task=self._sample[each].task)
        return EvaluationBatch(
            outputs=[revision.scores[each] > 0 for each in batch],
            scores=[revision.scores[each] for each in batch],
            trajectories=[episodes[each] for each in batch],
        )

    def make_reflective_dataset(
        self,
        candidate: Texts,
        eval_batch: EvaluationBatch[TrainingEpisode | None, bool],
        components_to_update: list[str],
    ) -> dict[str, list[JsonObject]]:
        """The episodes as every author is shown them, each once."""
        shown = {each.episode_id: each for each in eval_batch.trajectories or () if each}
        rows: list[JsonObject] = [each.model_dump(mode="json") for each in shown.values()]
        return dict.fromkeys(components_to_update, rows)

    def propose(
        self, candidate: Texts, reflective_dataset: Rows, components_to_update: list[str]
    ) -> Texts:
        """Ask the model for a revision of this one; an empty answer means: try something else.

        Nothing is raised here, because GEPA would ask a second time.
        """
        parent = self._by_text[candidate[COMPONENT]]
        rows = reflective_dataset[COMPONENT]
        request = revision_request(
            self._evidence.model_copy(
                update={
                    "tree": self._tree(parent),
                    "episodes": tuple(
                        TrainingEpisode.model_validate_json(canonical_json(dict(row)))
                        for row in rows
                    ),
                    "earlier": (*self._evidence.earlier, *self._discarded()),
                }
            )
        )
        try:
            reply = self._steps.ask(request)
        except OpenEtaError as error:
            self.failure = error
            return {}
        if reply is None:
            self.ended_by = "the allowance is used up"
            return {}
        revision = self._revision(reply, parent)
        return {} if revision is None else {COMPONENT: revision.text}

    def _revision(self, reply: AuthorReply, parent: Revision) -> Revision | None:
        """A revision of the strategy in use with the parameters of an answer.

        None if it is known what they come to. What was discarded for a few episodes that it did not
        help in may be written again, and is then tried on others.
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
        base = self._in_use
        name = f".r{base.revision + 1}.{self._author}-{parameters[:8]}"
        strategy = stamped(
            written.model_copy(
                update={
                    "strategy_id": base.strategy_family_id[: _ID_LENGTH - len(name)] + name,
                    "revision": base.revision + 1,
                    "supersedes": base.strategy_id,
                }
            ),
            self._evidence,
            author=self._author,
            rationale=answer.reason,
        )
        revision = Revision(
            strategy=strategy,
            text=render_strategy(strategy),
            rationale=answer.reason,
            parent=parent,
        )
        self._by_text[revision.text] = self._by_parameters[parameters] = revision
        return revision

    def _is_measured(self, revision: Revision) -> bool:
        """On the whole sample."""
        return revision.scores.keys() >= self._sample.keys()

    def _tree(self, revision: Revision) -> ArtifactTree:
        tree = self._evidence.tree
        if revision is self.seed:
            return tree
        artifact = Artifact(
            kind=ArtifactKind.GRASP_STRATEGY,
            name=revision.strategy.strategy_id,
            text=revision.text,
        )
        without = tree.without(ArtifactKind.GRASP_STRATEGY, self._in_use.strategy_id)
        return without.with_changes([artifact])

    def _discarded(self) -> tuple[EarlierCandidate, ...]:
        """Revisions that solved no more than what they were made from."""
        return tuple(
            EarlierCandidate(
                generation=self._evidence.generation,
                kind=ArtifactKind.GRASP_STRATEGY,
                name=each.strategy.strategy_id,
                content_digest=Artifact(
                    kind=ArtifactKind.GRASP_STRATEGY,
                    name=each.strategy.strategy_id,
                    text=each.text,
                ).content_digest,
                text=each.text,
                stop="discarded_in_training",
                reason=f"solved {each.solved} of {len(each.scores)} training episodes, "
                f"no more than what it revises",
            )
            for each in self._by_text.values()
            if each.parent is not None and each.scores and not _improves(each, each.parent)
        )

    def _should_stop(self, gepa_state: GEPAState[bool, int]) -> bool:
        """Asked before every iteration."""
        left = self._steps.episodes_left
        self._idle = self._idle + 1 if left == self._left_before else 0
        self._left_before = left
        best = self.best
        rounds = -(-len(self._sample) // self._limits.minibatch)
        if self.failure is not None or self.ended_by:
            return True
        if best is not None and best.solved == len(self._sample):
            self.ended_by = "it solves all of them"
        elif left < len(self._sample):
            self.ended_by = "the allowance holds no further revision"
        elif self._idle >= rounds + _SPARE_ITERATIONS:
            self.ended_by = "nothing new was written"
        return bool(self.ended_by)


def _improves(revision: Revision, parent: Revision) -> bool:
    before = sum(parent.scores.get(each, 0.0) for each in revision.scores)
    return sum(revision.scores.values()) > before


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
