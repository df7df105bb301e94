"""Generations: train, author, review, compare, promote, and again from what was promoted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import Proposal
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.event import CandidateProposed, GenerationEnded, GenerationStarted
from openeta_exp.domain.gate import FixedGate, Flakiness, Terms
from openeta_exp.domain.generation import (
    ExperimentResult,
    GenerationResult,
    LaneResult,
)
from openeta_exp.domain.pair import Side
from openeta_exp.domain.training import TrainingEvidence, training_episodes
from openeta_exp.domain.verdict import Effect, GateVerdict
from openeta_exp.engine.author import NOTHING, Allowance, AuthorBench
from openeta_exp.engine.batch import BatchRun, run_batch
from openeta_exp.engine.collect import SessionTree, collect_skill_change
from openeta_exp.engine.draws import draw_confirmation, draw_train_side
from openeta_exp.engine.lane import Lane, Workshop, compare_trees
from openeta_exp.engine.lineage_plan import LANES
from openeta_exp.engine.observe_arm import pair_key
from openeta_exp.engine.rules import EstimateRule, FlakinessRule
from openeta_exp.engine.summary import report_batch
from openeta_exp.ports.author import Author, Reviewer
from openeta_exp.ports.experiment_store import ExperimentStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Staff:
    """Who writes and who judges, by artifact kind. A kind without an author is only collected."""

    authors: Mapping[ArtifactKind, Author]
    reviewer: Reviewer
    allowance: Allowance = NOTHING
    """What an author may use for a proposal besides its own answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEngine:
    """Runs the generations of one lineage."""

    workshop: Workshop
    staff: Staff
    store: ExperimentStore

    async def run(self) -> ExperimentResult:
        """All generations, each from what the former promoted, and a confirmation at the end.

        Finished steps are taken from the journal, so an interrupted lineage goes on where it was.

        Raises:
            SettingsError: The experiment has begun from something else.
            StoreError: A fact could not be kept.
            ProviderError: An author's model could not be reached.
        """
        plan = self.workshop.plan
        tree = plan.tree
        results: list[GenerationResult] = []
        for generation in range(plan.generations):
            result, tree = await self.run_generation(generation, tree)
            results.append(result)
        confirmation, skipped = await self._confirm(tree)
        return ExperimentResult(
            experiment_id=plan.experiment_id,
            generations=tuple(results),
            first_digest=plan.tree.content_digest,
            last_digest=tree.content_digest,
            confirmation=confirmation,
            confirmation_skipped=skipped,
        )

    async def run_alone(self, generation: int) -> ExperimentResult:
        """One generation, from what the journal says its predecessor left; the first begins.

        The last generation is followed by the confirmation, as it is in `run`.

        Raises:
            SettingsError: The predecessor has not ended, or the experiment has begun from
                something else.
            StoreError: A fact could not be kept.
            ProviderError: An author's model could not be reached.
        """
        plan, lineage = self.workshop.plan, self.workshop.lineage
        tree = plan.tree
        if generation > 0:
            tree = lineage.start_of(generation)
            # Whether the settings still describe the experiment shows at its first baseline: a
            # later generation starts from the journal's tree, whatever the settings name.
            self._begin(0, plan.tree)
        _, after = await self.run_generation(generation, tree)
        is_last = generation == plan.generations - 1
        confirmation, skipped = (
            await self._confirm(after) if is_last else (None, "the lineage goes on")
        )
        return ExperimentResult(
            experiment_id=plan.experiment_id,
            generations=tuple(lineage.generations[each] for each in range(generation + 1)),
            first_digest=plan.tree.content_digest,
            last_digest=after.content_digest,
            confirmation=confirmation,
            confirmation_skipped=skipped,
        )

    async def run_generation(
        self, generation: int, tree: ArtifactTree
    ) -> tuple[GenerationResult, ArtifactTree]:
        """One generation and the tree the next one starts from."""
        plan, lineage = self.workshop.plan, self.workshop.lineage
        self._begin(generation, tree)
        known = lineage.generations.get(generation)
        if known is None:
            lineage.tell(
                GenerationStarted(
                    experiment_id=plan.experiment_id,
                    generation=generation,
                    baseline=tree,
                    behaviour=plan.behaviour,
                    design=plan.design,
                    at_s=self.workshop.observers.clock.unix_s(),
                )
            )
        train = await self._train(generation, tree)
        lanes: list[LaneResult] = []
        after = tree
        for kind in LANES:
            lane = await self._lane(kind, generation, baseline=tree, tree=after, train=train)
            lanes.append(lane)
            if lane.promotion is not None and lane.candidate is not None:
                after = lane.candidate.applied_to(after)
        result = _generation_result(plan.experiment_id, generation, tree, after, train, lanes)
        if known is None:
            lineage.tell(
                GenerationEnded(result=result, at_s=self.workshop.observers.clock.unix_s())
            )
        self.store.write_generation_result(
            result.model_dump_json(indent=2) + "\n", generation=generation
        )
        return result, after

    def _begin(self, generation: int, tree: ArtifactTree) -> None:
        record = self.workshop.plan.beginning(generation, tree)
        self.workshop.lineage.check_begun(record)
        self.store.begin_generation(record, tree)

    async def _train(self, generation: int, tree: ArtifactTree) -> BatchRun:
        plan, observers = self.workshop.plan, self.workshop.observers
        started = plan.batch(
            "train",
            label="train",
            generation=generation,
            tree=tree,
            manifest=plan.train,
            at_s=observers.clock.unix_s(),
        )
        batch = await run_batch(
            started,
            run_episode=self.workshop.episodes(started, tree),
            observers=observers,
        )
        report = report_batch(
            started,
            batch.outcomes,
            duration_s=batch.duration_s,
            interrupted=False,
            provider=batch.provider,
        )
        self.store.write_result(
            report.result.to_json() + "\n", generation=generation, phase="train"
        )
        return batch

    async def _lane(
        self,
        kind: ArtifactKind,
        generation: int,
        *,
        baseline: ArtifactTree,
        tree: ArtifactTree,
        train: BatchRun,
    ) -> LaneResult:
        evidence = TrainingEvidence(
            experiment_id=self.workshop.plan.experiment_id,
            generation=generation,
            kind=kind,
            tree=tree,
            episodes=training_episodes(train.started.manifest, train.outcomes),
            earlier=tuple(
                each
                for each in self.workshop.lineage.earlier(before=generation)
                if each.kind is kind
            ),
        )
        proposal = await self._proposal(kind, generation, evidence, baseline=baseline, train=train)
        lane = Lane(
            workshop=self.workshop,
            generation=generation,
            kind=kind,
            tree=tree,
            reviewer=self.staff.reviewer,
            flakiness=await self._flakiness(),
        )
        return await lane.run(proposal, evidence=evidence)

    async def _proposal(
        self,
        kind: ArtifactKind,
        generation: int,
        evidence: TrainingEvidence,
        *,
        baseline: ArtifactTree,
        train: BatchRun,
    ) -> Proposal:
        known = self.workshop.lineage.proposals.get((generation, kind))
        if known is not None:
            return known
        proposal = self._collected(kind, generation, baseline, train)
        author = self.staff.authors.get(kind)
        if proposal.candidate is None and author is not None:
            bench = AuthorBench(
                self.workshop, generation=generation, kind=kind, allowance=self.staff.allowance
            )
            proposal = await author.propose(evidence, bench=bench)
            proposal = proposal.model_copy(update={"effort": bench.effort(proposal.usage)})
        self.workshop.lineage.tell(
            CandidateProposed(
                experiment_id=self.workshop.plan.experiment_id,
                generation=generation,
                lane=kind,
                proposal=proposal,
                at_s=self.workshop.observers.clock.unix_s(),
            )
        )
        return proposal

    def _collected(
        self, kind: ArtifactKind, generation: int, baseline: ArtifactTree, train: BatchRun
    ) -> Proposal:
        """What sessions changed themselves; today only skills can be changed in a session."""
        if kind is not ArtifactKind.SKILL:
            return Proposal(candidate=None, reason="not changed in sessions")
        sessions = [
            SessionTree(
                episode_id=outcome.episode_id,
                verified=outcome.success,
                tree=self.store.session_tree(
                    outcome.session_id, generation=generation, phase="train"
                )
                or baseline,
            )
            for outcome in train.outcomes
            if isinstance(outcome, EpisodeResult)
        ]
        candidate = collect_skill_change(sessions, baseline=baseline)
        reason = "proposed" if candidate is not None else "no verified session changed a skill"
        return Proposal(candidate=candidate, reason=reason)

    async def _flakiness(self) -> Flakiness | None:
        """Measured once, with the first tree, before the first comparison that uses it."""
        plan = self.workshop.plan
        if plan.flakiness_pairs == 0:
            return None
        comparison_id = f"{plan.experiment_id}-a-a"
        known = self.workshop.lineage.comparisons.get(comparison_id)
        if known is not None:
            return known.flakiness
        return await compare_trees(
            self.workshop,
            comparison_id=comparison_id,
            generation=0,
            stage="a-a",
            phase="a-a",
            trees={Side.BASELINE: plan.tree, Side.CANDIDATE: plan.tree},
            draw=draw_train_side(plan),
            rule=FlakinessRule(),
            registered=(None, None),
            twins=True,
        )

    async def _confirm(self, tree: ArtifactTree) -> tuple[Effect | None, str]:
        """Estimate last against first tree on fresh keys; nothing is decided by it."""
        plan = self.workshop.plan
        if plan.confirmation_pairs == 0:
            return None, "not asked for"
        if tree.content_digest == plan.tree.content_digest:
            return None, "nothing was promoted"
        comparison_id = f"{plan.experiment_id}-g{plan.generations:03d}-confirmation"
        known = self.workshop.lineage.comparisons.get(comparison_id)
        if known is not None and known.verdict is not None:
            return _estimated(known.verdict)
        draw = draw_confirmation(plan)
        if not draw.schedule.slots:
            return None, "no held-out episode is left that no comparison had a share in"
        gate = FixedGate(pairs=len(draw.schedule.slots), n_min=1, min_tasks=1)
        terms = Terms(
            tier=plan.tier,
            accepted_tree=plan.tree.content_digest,
            schedule_digest=draw.schedule.content_digest,
            train_keys=tuple(pair_key(spec).unit for spec in plan.train.episodes),
            spent_keys=self.workshop.lineage.spent_keys(before=comparison_id),
            held_out_exhausted=draw.exhausted,
        )
        verdict = await compare_trees(
            self.workshop,
            comparison_id=comparison_id,
            generation=plan.generations - 1,
            stage="confirmation",
            phase="confirmation",
            trees={Side.BASELINE: plan.tree, Side.CANDIDATE: tree},
            draw=draw,
            rule=EstimateRule(gate=gate, terms=terms),
            registered=(gate, terms),
        )
        return _estimated(verdict)


def _estimated(verdict: GateVerdict) -> tuple[Effect | None, str]:
    """The effect, or why there is none."""
    if verdict.effect.pairs:
        return verdict.effect, ""
    return None, "; ".join(reason.message for reason in verdict.reasons)


def _generation_result(
    experiment_id: str,
    generation: int,
    before: ArtifactTree,
    after: ArtifactTree,
    train: BatchRun,
    lanes: list[LaneResult],
) -> GenerationResult:
    results = [outcome for outcome in train.outcomes if isinstance(outcome, EpisodeResult)]
    return GenerationResult(
        experiment_id=experiment_id,
        generation=generation,
        baseline_digest=before.content_digest,
        train_episodes=len(train.outcomes),
        train_successes=sum(outcome.success for outcome in results),
        lanes=tuple(lanes),
        next_baseline_digest=after.content_digest,
    )
