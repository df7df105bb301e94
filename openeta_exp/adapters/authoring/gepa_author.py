"""An author that is GEPA: reflective mutations of a strategy, tried on training episodes."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Sequence
from functools import partial

from anyio import from_thread, lowlevel, to_thread

from openeta_exp.adapters.authoring.gepa_search import SearchLimits, StrategySearch
from openeta_exp.adapters.authoring.revisions import Revisions
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.candidate import AuthorReply, Candidate, Proposal
from openeta_exp.domain.counting import counted
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.model import ModelRequest
from openeta_exp.domain.training import TrainingEpisode, TrainingEvidence
from openeta_exp.ports.author import Workbench
from openeta_exp.ports.provider import Provider


class GepaStrategyAuthor:
    """See `ports.author.Author`; revises the first grasp strategy of the tree.

    GEPA chooses which revision is changed next, on which training episodes it is looked at, and
    whether a change is kept. What is changed decides the provider's model, which is asked what
    every other author's model is asked. The best revision is proposed, and judged like any other.
    """

    name = "gepa"

    def __init__(
        self, provider: Provider, *, episodes_per_candidate: int, minibatch: int, seed: int
    ) -> None:
        """
        Args:
            episodes_per_candidate: On how many training episodes a revision that is kept is
                measured, at most.
            minibatch: On how many of these a change is tried first.
        """
        self._provider = provider
        self._episodes_per_candidate = episodes_per_candidate
        self._minibatch = minibatch
        self._seed = seed

    async def propose(self, evidence: TrainingEvidence, *, bench: Workbench) -> Proposal:
        if not evidence.tree.grasp_strategies():
            return Proposal(candidate=None, reason="the tree holds no grasp strategy to revise")
        sample = _sample(evidence.episodes, self._episodes_per_candidate)
        if not sample:
            return Proposal(candidate=None, reason="no training episode has a verdict")
        if all(episode.success for episode in sample):
            return Proposal(
                candidate=None,
                reason="author_no_change: every one of "
                f"{counted(len(sample), 'training episode')} was solved",
            )
        ids = [episode.episode_id for episode in sample]
        revisions = Revisions(evidence, sample=ids, author=self.name)
        search = StrategySearch(
            revisions,
            sample,
            steps=_FromThread(bench, self._provider),
            limits=SearchLimits(minibatch=self._minibatch, seed=self._seed + evidence.generation),
        )
        await to_thread.run_sync(search.run)
        # A cancelled search ends early, and what it has found so far is not what it would find.
        await lowlevel.checkpoint()
        if search.failure is not None:
            raise search.failure
        return self._proposal(revisions, evidence, ended_by=search.ended_by)

    def _proposal(
        self, revisions: Revisions, evidence: TrainingEvidence, *, ended_by: str
    ) -> Proposal:
        best, seed = revisions.best, revisions.seed
        tried = f"{revisions.tried} tried; {ended_by}"
        if best is None:
            return Proposal(
                candidate=None,
                reason="author_no_change: no revision did better than the strategy in use "
                f"({tried})",
            )
        return Proposal(
            candidate=Candidate(
                artifact=best.artifact,
                supersedes=seed.artifact.name,
                parent_digest=evidence.tree.content_digest,
                origin=f"author:{self.name}",
                rationale=(
                    f"{best.rationale}; solved {best.solved} of "
                    f"{counted(len(best.scores), 'training episode')} instead of {seed.solved} "
                    f"({tried})"
                ),
                supporting_episode_ids=revisions.fixed_by(best),
            ),
            reason="proposed",
        )


class _FromThread:
    """See `gepa_search.Steps`: the event loop's side of them, called from GEPA's thread."""

    def __init__(self, bench: Workbench, provider: Provider) -> None:
        self._bench = bench
        self._provider = provider

    @property
    def episodes_left(self) -> int:
        return self._bench.episodes_left

    def run(
        self, tree: ArtifactTree, episode_ids: Sequence[str]
    ) -> tuple[EpisodeOutcome, ...] | None:
        try:
            return from_thread.run(self._bench.run, tree, episode_ids)
        except concurrent.futures.CancelledError:
            return None

    def ask(self, request: ModelRequest) -> AuthorReply | None:
        try:
            return from_thread.run(partial(self._bench.ask, request, provider=self._provider))
        except concurrent.futures.CancelledError:
            return None


def _sample(episodes: Sequence[TrainingEpisode], most: int) -> tuple[TrainingEpisode, ...]:
    """Up to `most` episodes, the tasks in turn."""
    by_task: dict[str, list[TrainingEpisode]] = {}
    for episode in episodes:
        by_task.setdefault(episode.task, []).append(episode)
    rows = max(map(len, by_task.values()), default=0)
    in_turn = [of[row] for row in range(rows) for of in by_task.values() if row < len(of)]
    return tuple(in_turn[:most])
