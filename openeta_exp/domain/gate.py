"""The rules by which a candidate may become the baseline, as they are fixed before running."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from openeta_exp.domain.identity import Digest
from openeta_exp.domain.pair import PairKey
from openeta_exp.domain.record import Record

Probability = Annotated[float, Field(gt=0, lt=1)]


class Tier(StrEnum):
    """How much a promotion claims: good enough to try on, or fit to publish."""

    LOCAL = "local"
    PUBLISH = "publish"


class CredibleHarm(Record):
    """Block when harm is significant, or large over at least 20 pairs."""

    kind: Literal["credible_harm"] = "credible_harm"
    alpha: Probability = 0.05
    largest_increase: float = Field(default=0.10, ge=0, lt=1)
    """Change of the rate that blocks without significance, e.g. 0.10 for ten points."""


class NonInferiority(Record):
    """Block unless the data prove that harm stays below the margin. Needs many pairs."""

    kind: Literal["non_inferiority"] = "non_inferiority"
    margin: Probability = 0.10


class ReportOnly(Record):
    """Show the counts, never block."""

    kind: Literal["report_only"] = "report_only"


HarmPolicy = Annotated[CredibleHarm | NonInferiority | ReportOnly, Field(discriminator="kind")]


class CostMetric(StrEnum):
    TOKENS = "tokens"
    TOOL_CALLS = "tool_calls"
    WALL_S = "wall_s"


class CostPolicy(Record):
    """Limits on mean cost, candidate over baseline."""

    metrics: tuple[CostMetric, ...] = tuple(CostMetric)
    warn_ratio: float = Field(default=1.25, gt=0)
    """Warn when the ratio is above."""
    block_ratio: float = Field(default=1.25, gt=0)
    """Block when the ratio's one-sided 95 % lower bound is above."""
    replicates: int = Field(default=10_000, ge=100)
    """Bootstrap resamples."""


class Guardrails(Record):
    """What may block a candidate that met the success criterion.

    Safety and contract violations of the candidate are not listed: one stops the comparison.
    """

    need_human: HarmPolicy = CredibleHarm()
    fail: HarmPolicy = CredibleHarm()
    runtime_success: HarmPolicy = CredibleHarm()
    cost: CostPolicy | None = CostPolicy()
    task_harm_alpha: float = Field(default=0.05, ge=0, lt=1)
    """Level of the Holm-adjusted exact test of harm on single tasks; 0 shows without blocking."""
    exclusion_alpha: Probability = 0.05
    """Level at which the candidate loses more pairs to infrastructure than the baseline does."""
    largest_excluded_share: float = Field(default=0.20, ge=0, le=1)


class FloorRule(StrEnum):
    """What must reach the floor.

    POINT compares the observed rate, which certifies little: 19 of 20 is compatible with a true
    rate of 0.784. LOWER_BOUND compares the exact one-sided 95 % bound.
    """

    POINT = "point"
    LOWER_BOUND = "lower_bound"


class Floor(Record):
    """An absolute success rate that the candidate must reach, whatever the baseline does."""

    rate: float = Field(gt=0, le=1)
    rule: FloorRule = FloorRule.LOWER_BOUND


class _Statistical(Record):
    """What the modes with a controlled error rate share."""

    alpha: Probability = 0.05
    """One-sided type I error. The ledger may lower it."""
    n_min: int = Field(default=20, ge=1)
    """Valid pairs before anything is decided."""
    min_tasks: int = Field(default=2, ge=1)
    delta_min: Probability = 0.15
    """Smallest gain worth a promotion, as a rate. Decides sizes and giving up, not success."""
    guardrails: Guardrails = Guardrails()
    floor: Floor | None = None


class SequentialGate(_Statistical):
    """Exact sign test with early stops for success, harm and futility. The default."""

    mode: Literal["sequential"] = "sequential"
    n_max: int | Literal["auto"] = 60
    """Valid pairs at which it ends undecided. `auto` fits it once to the discordance seen."""
    n_max_bounds: tuple[int, int] = (40, 150)
    """Smallest and largest size that `auto` may choose."""
    rho: float = Field(default=1.0, gt=0)
    batch: int = Field(default=4, ge=1)
    """Pairs between looks: the number of parallel workers."""
    gamma: float = Field(default=0.2, ge=0, lt=1)
    """Give up when the chance of success at `delta_min` is below; 0 never does."""
    planned_discordance: float = Field(default=0.3, gt=0, le=1)

    @model_validator(mode="after")
    def _sizes_are_ordered(self) -> Self:
        smallest, largest = self.n_max_bounds
        if not self.n_min <= smallest <= largest and self.n_max == "auto":
            raise ValueError("n_max_bounds must be ordered and not below n_min")
        if self.n_max != "auto" and self.n_max < self.n_min:
            raise ValueError(f"n_max {self.n_max} is below n_min {self.n_min}: it cannot decide")
        return self

    @property
    def largest_n_max(self) -> int:
        """Pairs that must be available for the test to run to its end."""
        return self.n_max_bounds[1] if self.n_max == "auto" else self.n_max


class NoninferiorCheaper(Record):
    """A second way to be promoted: hardly worse and clearly cheaper."""

    margin: Probability = 0.10
    """Largest loss of success rate that would be accepted."""
    metric: CostMetric = CostMetric.TOKENS
    largest_ratio: Probability = 0.90
    """The cost ratio's upper bound must be below."""


class Target(StrEnum):
    """What the claim is about: this list of tasks over new seeds, or tasks not seen yet."""

    SUITE = "suite"
    NEW_TASKS = "new_tasks"


class FixedGate(_Statistical):
    """Exact McNemar test at a size chosen beforehand."""

    mode: Literal["fixed"] = "fixed"
    pairs: int = Field(default=60, ge=1)
    midp: bool = False
    """Less conservative; its one-sided size reaches 0.058 at a nominal 0.05."""
    target: Target = Target.SUITE
    noninferior_cheaper: NoninferiorCheaper | None = None

    @model_validator(mode="after")
    def _size_reaches_its_minimum(self) -> Self:
        if self.pairs < self.n_min:
            raise ValueError(f"pairs {self.pairs} is below n_min {self.n_min}: it cannot decide")
        return self


class AnytimeGate(_Statistical):
    """Evidence that stays valid however long one goes on, for less power."""

    mode: Literal["anytime"] = "anytime"
    n_min: int = Field(default=1, ge=1)
    n_max: int | None = Field(default=None, ge=1)
    """Pairs that can be paid for; None is open-ended."""
    harm_alpha: float = Field(default=0.05, ge=0, lt=1)
    """Give up when evidence of harm, or against `delta_min`, reaches the inverse; 0 never does."""


class InfrastructureFilter(StrEnum):
    """What the original rule drops: broken pairs, or broken episodes of each arm separately."""

    PAIR = "pair"
    PER_ARM = "per_arm"


class StrategyThresholds(Record):
    """What the original rule asks of a grasp strategy on top."""

    min_canary_attempts: int = Field(default=2, ge=0)
    min_held_out_attempts: int = Field(default=20, ge=1)
    min_success_rate: float = Field(default=0.95, ge=0, le=1)
    min_tasks: int = Field(default=2, ge=1)


class NoRegressionGate(Record):
    """The original rule: no episode may get worse. Its error rate is not controlled."""

    mode: Literal["no_regression"] = "no_regression"
    strategy: StrategyThresholds | None = StrategyThresholds()
    """None for skills, which need no more than the rule itself."""
    infrastructure_filter: InfrastructureFilter = InfrastructureFilter.PAIR
    guardrails: Guardrails = Guardrails()
    """Used for its limits on excluded pairs only."""


Gate = Annotated[
    SequentialGate | FixedGate | AnytimeGate | NoRegressionGate, Field(discriminator="mode")
]


def uses_repeats(gate: Gate) -> bool:
    """Whether reruns of one episode may be among its pairs: they are not independent."""
    return isinstance(gate, AnytimeGate | NoRegressionGate)


LOCAL_GATE = SequentialGate(alpha=0.20, n_max=40, n_min=12, delta_min=0.20)
PUBLISH_GATE = SequentialGate()


class GateTiers(Record):
    """The rule for the next baseline, and the rule for publishing."""

    local: Gate = LOCAL_GATE
    publish: Gate = PUBLISH_GATE

    def of(self, tier: Tier) -> Gate:
        return self.local if tier is Tier.LOCAL else self.publish


class Flakiness(Record):
    """How often the baseline disagrees with itself, measured on train-side keys."""

    pairs: int = Field(ge=1)
    success_rate: float = Field(ge=0, le=1)
    discordance: float = Field(ge=0, le=1)
    """Share of pairs on which two runs of the same agent disagreed."""
    discordance_low: float = Field(ge=0, le=1)
    discordance_high: float = Field(ge=0, le=1)
    """Ends of the exact 90 % interval."""
    icc: float | None = None
    """How deterministic the agent is on an episode; None if every episode ended alike."""
    p_value: float = Field(ge=0, le=1)
    alarm: bool
    """The two runs are not exchangeable: a cache, an order effect or a drift favours one."""
    flaky_keys: tuple[PairKey, ...] = ()


class Terms(Record):
    """What a comparison is judged against, besides the gate itself."""

    tier: Tier = Tier.PUBLISH
    alpha_cap: float | None = Field(default=None, ge=0, lt=1)
    """The ledger's level for this test; None leaves the gate's own, as the local tier does."""
    accepted_tree: str | None = None
    """Digest of the current baseline tree; None if it cannot have changed."""
    schedule_digest: Digest | None = None
    """As recorded before anything was run."""
    train_keys: tuple[PairKey, ...] = ()
    spent_keys: tuple[PairKey, ...] = ()
    """Held-out keys that earlier comparisons used."""
    held_out_reuse: bool = False
    """Spent keys are allowed on purpose. Only evidence that survives dependence counts then."""
    shared_baseline: bool = False
    """Baseline runs are shared with other comparisons. The same holds."""
    held_out_exhausted: bool = False
    """The pool had fewer fresh keys than the gate asks for."""
    flakiness: Flakiness | None = None
    canary_attempts: int = Field(default=0, ge=0)
    resampling_seed: int | None = Field(default=None, ge=0)
    """Of the bootstrap; None derives it from the schedule's digest."""
