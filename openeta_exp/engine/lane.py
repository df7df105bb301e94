"""One artifact kind's way through a generation: review, canary, held-out, promotion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import Candidate, Promotion, Proposal
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import (
    BatchStarted,
    CandidateReviewed,
    ComparisonEnded,
    ComparisonPlanned,
    Promoted,
)
from openeta_exp.domain.gate import Flakiness, Gate, Terms
from openeta_exp.domain.generation import CanaryReport, LaneResult, LaneStop
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.pair import PairKey, Side
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.domain.verdict import Decision, GateVerdict
from openeta_exp.engine.batch import Observers, RunEpisode
from openeta_exp.engine.compare import Answer, ComparisonPlan, Rule, run_comparison
from openeta_exp.engine.draws import Draw, draw_canary, draw_held_out
from openeta_exp.engine.lineage import Lineage
from openeta_exp.engine.lineage_plan import LANES, LineagePlan
from openeta_exp.engine.observe_arm import pair_key
from openeta_exp.engine.publish import publish
from openeta_exp.engine.rules import CanaryRule, GateRule
from openeta_exp.errors import ArtifactError
from openeta_exp.ports.author import Reviewer
from openeta_exp.ports.registry import Registry
from openeta_exp.statistics.multiplicity import alpha_cap


class Episodes(Protocol):
    """How episodes of a batch are run: the world with that batch's arm, tree and sessions."""

    def __call__(self, batch: BatchStarted, tree: ArtifactTree) -> RunEpisode: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What every lane works with."""

    plan: LineagePlan
    lineage: Lineage
    observers: Observers
    episodes: Episodes
    registry: Registry | None = None
    """Where promoted artifacts are shared; None shares nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane of one generation."""

    workshop: Workshop
    generation: int
    kind: ArtifactKind
    tree: ArtifactTree
    reviewer: Reviewer
    flakiness: Flakiness | None = None
    """How often the first baseline disagrees with itself, if that was measured."""

    async def run(self, proposal: Proposal, *, evidence: TrainingEvidence) -> LaneResult:
        """Take a proposal as far as it gets.

        Raises:
            StoreError: A fact could not be kept.
            ProviderError: The reviewer's request could not be queued.
        """
        candidate = proposal.candidate
        if candidate is None:
            return self._end(LaneStop.NO_CANDIDATE, proposal.reason + proposal.remark)
        problem = self._unusable(candidate, evidence)
        if problem is not None:
            return problem
        review = self.workshop.lineage.reviews.get((self.generation, self.kind))
        if review is None:
            review = await self.reviewer.review(candidate, evidence=evidence)
            self.workshop.lineage.tell(
                CandidateReviewed(
                    experiment_id=self.workshop.plan.experiment_id,
                    generation=self.generation,
                    lane=self.kind,
                    candidate_digest=candidate.content_digest,
                    review=review,
                    at_s=self.workshop.observers.clock.unix_s(),
                )
            )
        reached = LaneResult(
            kind=self.kind,
            stop=LaneStop.REVIEW_BLOCKED,
            reason=review.reason,
            candidate=candidate,
            review=review,
        )
        return await self._compared(reached, candidate) if review.approves else reached

    async def _compared(self, reached: LaneResult, candidate: Candidate) -> LaneResult:
        canary = await self._canary(candidate)
        reached = reached.model_copy(update={"canary": canary})
        if not canary.passed:
            return _ended(reached, LaneStop.CANARY_FAILED, "; ".join(canary.problems))
        verdict = await self._held_out(candidate, canary_attempts=canary.pairs)
        reached = reached.model_copy(update={"held_out": verdict})
        match verdict.decision:
            case Decision.REJECT:
                return _ended(reached, LaneStop.HELD_OUT_REJECTED, verdict.sentence())
            case Decision.INCONCLUSIVE:
                return _ended(reached, LaneStop.HELD_OUT_INCONCLUSIVE, verdict.sentence())
            case Decision.PROMOTE:
                return await self._promoted(reached, candidate, verdict)

    async def _promoted(
        self, reached: LaneResult, candidate: Candidate, verdict: GateVerdict
    ) -> LaneResult:
        after = candidate.applied_to(self.tree)
        promotion = Promotion(
            generation=self.generation,
            kind=self.kind.value,
            name=candidate.artifact.name,
            from_digest=self.tree.content_digest,
            to_digest=after.content_digest,
            candidate_digest=candidate.content_digest,
            comparison_id=self._comparison_id("held-out"),
            reasons=verdict.codes,
        )
        if promotion.comparison_id not in self.workshop.lineage.promoted:
            self.workshop.lineage.tell(
                Promoted(
                    experiment_id=self.workshop.plan.experiment_id,
                    promotion=promotion,
                    tree=after,
                    at_s=self.workshop.observers.clock.unix_s(),
                )
            )
        await self._publish(candidate, promotion, verdict)
        ended = _ended(reached, LaneStop.PROMOTED, verdict.sentence())
        return ended.model_copy(update={"promotion": promotion})

    async def _publish(
        self, candidate: Candidate, promotion: Promotion, verdict: GateVerdict
    ) -> None:
        workshop = self.workshop
        if workshop.registry is None or promotion.comparison_id in workshop.lineage.published:
            return
        published = await publish(
            workshop.registry,
            plan=workshop.plan,
            candidate=candidate,
            promotion=promotion,
            verdict=verdict,
            tree=self.tree,
            clock=workshop.observers.clock,
        )
        if published is not None:
            workshop.lineage.tell(published)

    async def _canary(self, candidate: Candidate) -> CanaryReport:
        comparison_id = self._comparison_id("canary")
        known = self.workshop.lineage.comparisons.get(comparison_id)
        if known is not None and known.canary is not None:
            return known.canary
        return await self._compare(
            candidate,
            stage="canary",
            draw=draw_canary(self.workshop.plan, turn=1 + self._turn),
            rule=CanaryRule(comparison_id=comparison_id),
            registered=(None, None),
        )

    async def _held_out(self, candidate: Candidate, *, canary_attempts: int) -> GateVerdict:
        comparison_id = self._comparison_id("held-out")
        known = self.workshop.lineage.comparisons.get(comparison_id)
        if known is not None and known.verdict is not None:
            return known.verdict
        plan = self.workshop.plan
        draw = draw_held_out(plan, turn=self._turn)
        terms = Terms(
            tier=plan.tier,
            alpha_cap=alpha_cap(
                plan.tier,
                horizon=plan.comparisons,
                fdr=plan.fdr,
                history=self.workshop.lineage.tests(before=comparison_id),
            ),
            accepted_tree=self.tree.content_digest,
            schedule_digest=draw.schedule.content_digest,
            train_keys=tuple(pair_key(spec).unit for spec in plan.train.episodes),
            spent_keys=self.workshop.lineage.spent_keys(before=comparison_id),
            held_out_exhausted=draw.exhausted,
            flakiness=self.flakiness,
            canary_attempts=canary_attempts,
        )
        return await self._compare(
            candidate,
            stage="held-out",
            draw=draw,
            rule=GateRule(gate=plan.gate, terms=terms),
            registered=(plan.gate, terms),
        )

    async def _compare(
        self,
        candidate: Candidate,
        *,
        stage: str,
        draw: Draw,
        rule: Rule[Answer],
        registered: tuple[Gate | None, Terms | None],
    ) -> Answer:
        """Pre-register, run, and record one comparison of the candidate with the baseline."""
        return await compare_trees(
            self.workshop,
            comparison_id=self._comparison_id(stage),
            generation=self.generation,
            stage=stage,
            phase=f"{self.kind.value.replace('_', '-')}-{stage}",
            trees={Side.BASELINE: self.tree, Side.CANDIDATE: candidate.applied_to(self.tree)},
            draw=draw,
            rule=rule,
            registered=registered,
        )

    def _unusable(self, candidate: Candidate, evidence: TrainingEvidence) -> LaneResult | None:
        """Content that no longer needs to be tested, or cannot be."""
        tree = candidate.applied_to(self.tree)
        try:
            tree.skills()
            tree.grasp_strategies()
        except ArtifactError as error:
            ended = self._end(LaneStop.PROPOSAL_UNUSABLE, "; ".join(error.problems))
            return ended.model_copy(update={"candidate": candidate})
        tried = {earlier.content_digest for earlier in evidence.earlier}
        if tree.content_digest == self.tree.content_digest:
            reason = "the baseline holds the same content"
        elif candidate.content_digest in tried:
            reason = "the same content was tried before"
        else:
            return None
        ended = self._end(LaneStop.ALREADY_TRIED, reason)
        return ended.model_copy(update={"candidate": candidate})

    @property
    def _turn(self) -> int:
        return self.generation * len(LANES) + LANES.index(self.kind)

    def _comparison_id(self, stage: str) -> str:
        return self.workshop.plan.comparison_id(self.generation, self.kind, stage)

    def _end(self, stop: LaneStop, reason: str) -> LaneResult:
        return LaneResult(kind=self.kind, stop=stop, reason=reason)


def _ended(reached: LaneResult, stop: LaneStop, reason: str) -> LaneResult:
    return reached.model_copy(update={"stop": stop, "reason": reason})


async def compare_trees(
    workshop: Workshop,
    *,
    comparison_id: str,
    generation: int,
    stage: str,
    phase: str,
    trees: Mapping[Side, ArtifactTree],
    draw: Draw,
    rule: Rule[Answer],
    registered: tuple[Gate | None, Terms | None],
    twins: bool = False,
) -> Answer:
    """Pre-register, run and record a comparison of two trees.

    Args:
        twins: Both sides are the same tree, and are to be run apart all the same.

    Raises:
        StoreError: A fact could not be kept.
    """
    plan, observers = workshop.plan, workshop.observers
    manifest = Manifest(episodes=draw.specs)
    arms = {
        side: plan.batch(
            f"{phase}-{side.value}",
            label=side.value,
            generation=generation,
            tree=trees[side],
            manifest=manifest,
            at_s=observers.clock.unix_s(),
            twin=twins and side is Side.CANDIDATE,
        )
        for side in Side
    }
    gate, terms = registered
    workshop.lineage.tell(
        ComparisonPlanned(
            comparison_id=comparison_id,
            experiment_id=plan.experiment_id,
            generation=generation,
            stage=stage,
            baseline_batch_id=arms[Side.BASELINE].batch_id,
            candidate_batch_id=arms[Side.CANDIDATE].batch_id,
            schedule_digest=draw.schedule.content_digest,
            scheduled_pairs=len(draw.schedule.slots),
            gate=gate,
            terms=terms,
            at_s=observers.clock.unix_s(),
        )
    )
    runners = {side: workshop.episodes(arms[side], trees[side]) for side in Side}

    async def run_arm(side: Side, spec: EpisodeSpec) -> EpisodeOutcome:
        return await runners[side](spec)

    specs: dict[PairKey, EpisodeSpec] = {pair_key(spec): spec for spec in draw.specs}
    run = await run_comparison(
        ComparisonPlan(
            comparison_id=comparison_id,
            arms=arms,
            schedule=draw.schedule,
            specs=specs,
            pins=plan.pins,
            prices=plan.prices,
            concurrency=plan.concurrency,
            own_runs=True,
        ),
        rule=rule,
        run_arm=run_arm,
        observers=observers,
    )
    workshop.lineage.tell(
        ComparisonEnded(
            comparison_id=comparison_id,
            experiment_id=plan.experiment_id,
            generation=generation,
            stage=stage,
            verdict=run.answer if isinstance(run.answer, GateVerdict) else None,
            canary=run.answer if isinstance(run.answer, CanaryReport) else None,
            flakiness=run.answer if isinstance(run.answer, Flakiness) else None,
            pairs=run.comparison.observations,
            duration_s=run.duration_s,
            at_s=observers.clock.unix_s(),
        )
    )
    return run.answer
