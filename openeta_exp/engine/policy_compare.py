"""Policies on the same episodes: each against the first, pair by pair, through the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import (
    Arm,
    BatchStarted,
    ComparisonEnded,
    ComparisonPlanned,
    Provenance,
)
from openeta_exp.domain.gate import Gate, Terms, Tier
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.money import Prices
from openeta_exp.domain.pair import PairKey, Side
from openeta_exp.domain.policy_comparison import POLICIES
from openeta_exp.domain.record import digest
from openeta_exp.domain.schedule import Schedule, ScheduledPair, interleave
from openeta_exp.engine.batch import Observers, RunEpisode
from openeta_exp.engine.calls import CountCalls, no_calls
from openeta_exp.engine.compare import ComparisonPlan, run_comparison
from openeta_exp.engine.observe_arm import pair_key
from openeta_exp.engine.policy_compare_gate import TwoSidedRule
from openeta_exp.engine.policy_compare_verdict import Judged, judge_all, withheld
from openeta_exp.errors import ManifestError

GENERATION = 0
POLICY_PHASE = "policy-"
"""Before a policy's name: the phase of its episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One arm: how its episodes are run, and what is told of it.

    Attributes:
        arm: Its settings are what all arms have in common; its tree stands for the policy.
        config: The resolved configuration, with this policy's identity.
        calls: Counts its model calls, if it makes any.
    """

    arm: Arm
    run: RunEpisode
    config: JsonObject
    calls: CountCalls = no_calls

    @property
    def name(self) -> str:
        return self.arm.label


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparePlan:
    """A comparison of policies as it is fixed before its first episode.

    Attributes:
        contestants: The first is what the others are compared with.
        gate: Sized to the manifest.
        complete: Run every episode, whatever the gate says on the way.
        repeats: Of each scenario, in the manifest.
        margin: Largest difference that would not matter; None tests no equivalence.
        attempts: Runs of an episode that breaks.
        max_missing_share: Pairs without a verdict, as a share of all, beyond which nothing is said
            in a policy's favour; see `domain.policy_comparison.ending`.
        fresh: Run again what has a verdict already.
    """

    experiment_id: str
    manifest: Manifest
    contestants: Sequence[Contestant]
    gate: Gate
    complete: bool
    repeats: int
    margin: float | None
    attempts: int
    max_missing_share: float
    concurrency: int
    provenance: Provenance
    prices: Prices
    fresh: bool

    @property
    def baseline(self) -> Contestant:
        return self.contestants[0]

    @property
    def candidates(self) -> Sequence[Contestant]:
        return self.contestants[1:]

    def comparison_id(self, candidate: Contestant) -> str:
        """The same two policies under the same names are the same comparison."""
        pair = "-".join(
            f"{each.name}-{each.arm.tree_digest[:8]}" for each in (self.baseline, candidate)
        )
        return f"{self.experiment_id}-{POLICIES}-{pair}"

    def batch(self, contestant: Contestant, *, at_s: float) -> BatchStarted:
        phase = f"{POLICY_PHASE}{contestant.name}"
        return BatchStarted(
            batch_id=f"{self.experiment_id}-g{GENERATION:03d}-{phase}",
            experiment_id=self.experiment_id,
            generation=GENERATION,
            phase=phase,
            arm=contestant.arm,
            manifest=self.manifest,
            concurrency=self.concurrency,
            config=contestant.config,
            provenance=self.provenance,
            at_s=at_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedContestant:
    """One policy against the first.

    Attributes:
        missing: Pairs without a verdict that were to have one: those that broke, and those that
            were not begun because a policy only breaks. Pairs a gate made needless are not, and
            neither are those that were solved at reset.
    """

    comparison_id: str
    judged: Judged
    scheduled: int
    missing: int
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    comparison: PairedComparison
    missing: int
    duration_s: float


async def compare_policies(
    plan: PolicyComparePlan,
    *,
    observers: Observers,
    may_go_on: Callable[[], bool] = lambda: True,
    may_run: Callable[[Contestant], bool] = lambda _: True,
) -> dict[str, ComparedContestant]:
    """Run what is missing of every pair, then judge all policies together.

    Episodes of the first policy are run once and serve every comparison. Holm's procedure needs
    no independence, so that costs nothing but the usual price of several comparisons.

    Args:
        may_go_on: False once the episodes have shown that they mean nothing; the comparisons are
            then left open in the journal.
        may_run: False for a policy that only breaks; what is left of its pairs is not run.

    Raises:
        ManifestError: Two episodes are the same pair.
        StoreError: A fact could not be kept.
    """
    schedule = _schedule(plan)
    terms = Terms(tier=Tier.LOCAL, schedule_digest=schedule.content_digest)
    rule = TwoSidedRule(gate=plan.gate, terms=terms, complete=plan.complete, repeats=plan.repeats)
    ran: dict[str, _Ran] = {}
    for place, candidate in enumerate(plan.candidates):
        run = await _run(
            plan,
            candidate,
            schedule=schedule,
            rule=_strict(rule, policies=len(plan.candidates)),
            observers=observers,
            may_go_on=may_go_on,
            may_run=may_run,
            is_first=place == 0,
        )
        if run is None:
            return {}
        ran[candidate.name] = run
    judged = judge_all(
        {name: run.comparison for name, run in ran.items()}, rule=rule, margin=plan.margin
    )
    scheduled = len(schedule.slots)
    for name, each in ran.items():
        if each.missing > plan.max_missing_share * scheduled:
            judged[name] = withheld(judged[name], missing=each.missing, scheduled=scheduled)
    for candidate in plan.candidates:
        name = candidate.name
        observers.tell(
            ComparisonEnded(
                comparison_id=plan.comparison_id(candidate),
                experiment_id=plan.experiment_id,
                generation=GENERATION,
                stage=POLICIES,
                verdict=judged[name].announced,
                canary=None,
                pairs=ran[name].comparison.observations,
                duration_s=ran[name].duration_s,
                at_s=observers.clock.unix_s(),
            )
        )
    return {
        candidate.name: ComparedContestant(
            comparison_id=plan.comparison_id(candidate),
            judged=judged[candidate.name],
            scheduled=scheduled,
            missing=ran[candidate.name].missing,
            duration_s=ran[candidate.name].duration_s,
        )
        for candidate in plan.candidates
    }


async def _run(
    plan: PolicyComparePlan,
    candidate: Contestant,
    *,
    schedule: Schedule,
    rule: TwoSidedRule,
    observers: Observers,
    may_go_on: Callable[[], bool],
    may_run: Callable[[Contestant], bool],
    is_first: bool,
) -> _Ran | None:
    """Pre-register a comparison and run it; None if it was told to stop."""
    sides = {Side.BASELINE: plan.baseline, Side.CANDIDATE: candidate}
    at_s = observers.clock.unix_s()
    arms = {side: plan.batch(each, at_s=at_s) for side, each in sides.items()}
    observers.tell(
        ComparisonPlanned(
            comparison_id=plan.comparison_id(candidate),
            experiment_id=plan.experiment_id,
            generation=GENERATION,
            stage=POLICIES,
            baseline_batch_id=arms[Side.BASELINE].batch_id,
            candidate_batch_id=arms[Side.CANDIDATE].batch_id,
            schedule_digest=schedule.content_digest,
            scheduled_pairs=len(schedule.slots),
            gate=plan.gate,
            terms=rule.terms,
            at_s=at_s,
        )
    )

    async def run_arm(side: Side, spec: EpisodeSpec) -> EpisodeOutcome:
        return await sides[side].run(spec)

    fresh = frozenset[Side]()
    if plan.fresh:
        # The first policy's episodes are fresh once they were run for the first comparison.
        fresh = frozenset(Side) if is_first else frozenset({Side.CANDIDATE})
    run = await run_comparison(
        ComparisonPlan(
            comparison_id=plan.comparison_id(candidate),
            arms=arms,
            schedule=schedule,
            specs=_specs(plan.manifest),
            pins={},
            prices=plan.prices,
            concurrency=plan.concurrency,
            # A planner's environment says more of itself than a policy's does.
            environment_pins=(),
            attempts=plan.attempts,
            fresh=fresh,
            any_order=plan.complete,
        ),
        rule=rule,
        run_arm=run_arm,
        observers=observers,
        may_go_on=lambda: may_go_on() and all(map(may_run, sides.values())),
        calls={side: each.calls for side, each in sides.items()},
    )
    if not may_go_on():
        return None
    missing = len(run.comparison.broken)
    if not all(map(may_run, sides.values())):
        missing += len(schedule.slots) - len(run.comparison.observations)
    return _Ran(comparison=run.comparison, missing=missing, duration_s=run.duration_s)


def _strict(rule: TwoSidedRule, *, policies: int) -> TwoSidedRule:
    """While it runs, a comparison is stopped only by what would be enough for Holm's first step."""
    if rule.complete or policies == 1 or rule.gate.mode == "no_regression":
        return rule
    terms = rule.terms.model_copy(update={"alpha_cap": rule.gate.alpha / policies})
    return TwoSidedRule(gate=rule.gate, terms=terms, complete=rule.complete, repeats=rule.repeats)


def _specs(manifest: Manifest) -> Mapping[PairKey, EpisodeSpec]:
    """Raises: ManifestError: Two episodes would be one pair, and one of them be left out."""
    found = {pair_key(spec): spec for spec in manifest.episodes}
    if len(found) < len(manifest.episodes):
        raise ManifestError("two episodes are the same pair; give one another seed or repeat")
    return found


def _schedule(plan: PolicyComparePlan) -> Schedule:
    """Scenarios in balanced blocks over tasks; the repeats of a scenario one after another."""
    repeats: dict[PairKey, list[PairKey]] = {}
    for key in _specs(plan.manifest):
        repeats.setdefault(key.unit, []).append(key)
    salt = digest([POLICIES, plan.experiment_id, plan.manifest.content_digest])
    slots: list[ScheduledPair] = []
    for unit in interleave(tuple(repeats), salt=salt).slots:
        slots += [ScheduledPair(key=key, first=unit.first) for key in repeats[unit.key]]
    return Schedule(slots=tuple(slots))
