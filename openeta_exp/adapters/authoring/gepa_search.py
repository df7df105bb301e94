"""GEPA over the text of one grasp strategy, its metric being training episodes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gepa.api import optimize
from gepa.core.adapter import EvaluationBatch, ProposalFn
from gepa.core.state import GEPAState
from pydantic import JsonValue

from openeta_exp.adapters.authoring.revisions import Revisions
from openeta_exp.adapters.authoring.strategy_writing import revision_request
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.candidate import AuthorReply
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import ModelRequest
from openeta_exp.domain.record import canonical_json
from openeta_exp.domain.training import TrainingEpisode, training_episode
from openeta_exp.errors import OpenEtaError

logger = logging.getLogger(__name__)

COMPONENT = "grasp_strategy"
"""The one text component of a candidate."""
_SPARE_ITERATIONS = 2

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


class _OverError(Exception):
    """Nothing more can be evaluated; leaves GEPA's loop, which has no other way out of a step."""


class _Log:
    """Takes GEPA's own account of what it does, which it would print otherwise."""

    def log(self, message: str) -> None:
        logger.debug("%s", message)


class StrategySearch:
    """One run of GEPA; also its adapter, between a text and the episodes that try it.

    All steps are functions of the seed and of what `steps` answers, so that the same search on a
    bench that remembers goes the same way again. GEPA's own way of resuming is not used: it loses
    what was under way and takes another path from there.

    Attributes:
        failure: What ended the search from outside, if something did.
        ended_by: Why it ended, in a few words.
    """

    propose_new_texts: ProposalFn | None = None

    def __init__(
        self,
        revisions: Revisions,
        sample: Sequence[TrainingEpisode],
        *,
        steps: Steps,
        limits: SearchLimits,
    ) -> None:
        self._revisions = revisions
        self._sample = {episode.episode_id: episode for episode in sample}
        self._steps = steps
        self._limits = limits
        self._idle = 0
        self._left_before: int | None = None
        self.failure: OpenEtaError | None = None
        self.ended_by = ""

    def run(self) -> None:
        """Search until the allowance is used up or nothing new comes. Blocks."""
        ids = list(self._sample)
        try:
            optimize(
                seed_candidate={COMPONENT: self._revisions.seed.text},
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
        revision = self._revisions[candidate[COMPONENT]]
        # GEPA fills up its last minibatch with episodes it has already.
        ids = list(dict.fromkeys(batch))
        outcomes = self._steps.run(self._revisions.tree(revision), ids)
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
        parent = self._revisions[candidate[COMPONENT]]
        rows = [canonical_json(dict(row)) for row in reflective_dataset[COMPONENT]]
        episodes = tuple(TrainingEpisode.model_validate_json(row) for row in rows)
        evidence = self._revisions.shown_with(parent).model_copy(update={"episodes": episodes})
        try:
            reply = self._steps.ask(revision_request(evidence))
        except OpenEtaError as error:
            self.failure = error
            return {}
        if reply is None:
            self.ended_by = "the allowance is used up"
            return {}
        revision = self._revisions.take(reply, parent=parent)
        return {} if revision is None else {COMPONENT: revision.text}

    def _should_stop(self, gepa_state: GEPAState[bool, int]) -> bool:
        """Asked before every iteration."""
        left = self._steps.episodes_left
        self._idle = self._idle + 1 if left == self._left_before else 0
        self._left_before = left
        best = self._revisions.best
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
