"""One episode under both arms: the unit of evidence of every comparison."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from openeta_exp.domain.record import Record


class Side(StrEnum):
    """The two arms of a comparison."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class PairKey(Record):
    """What both arms of a pair have in common. `rep` counts reruns of the same episode."""

    env_id: str = Field(min_length=1)
    task_id: str = Field(min_length=1)
    scenario_id: str = ""
    seed: int = 0
    rep: int = Field(default=0, ge=0)

    @property
    def unit(self) -> PairKey:
        """The episode without its repeat index: what is independent evidence."""
        return self.model_copy(update={"rep": 0})

    def __str__(self) -> str:
        scenario = f"/{self.scenario_id}" if self.scenario_id else ""
        return f"{self.env_id}/{self.task_id}{scenario}#{self.seed}.{self.rep}"


class PairStatus(StrEnum):
    """How an episode ended for the runtime. Objective success is a separate fact."""

    SUCCESS = "success"
    FAIL = "fail"
    NEED_HUMAN = "need_human"
    INFRASTRUCTURE = "infrastructure"
    SOLVED_AT_RESET = "solved_at_reset"
    """The checker was satisfied before anything was done: there was nothing to solve."""


_WHY = {PairStatus.INFRASTRUCTURE: "broke", PairStatus.SOLVED_AT_RESET: "was solved at reset"}


class Cost(Record):
    """What episodes consumed. Summing keeps an unknown price unknown."""

    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)
    wall_s: float = Field(default=0.0, ge=0)
    price_usd: float | None = Field(default=None, ge=0)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


def total_cost(costs: Iterable[Cost]) -> Cost:
    """The sum; its price is None as soon as one price is."""
    costs = tuple(costs)
    prices = [cost.price_usd for cost in costs if cost.price_usd is not None]
    return Cost(
        tokens_in=sum(cost.tokens_in for cost in costs),
        tokens_out=sum(cost.tokens_out for cost in costs),
        tool_calls=sum(cost.tool_calls for cost in costs),
        wall_s=sum(cost.wall_s for cost in costs),
        price_usd=sum(prices) if costs and len(prices) == len(costs) else None,
    )


class Fingerprint(Record):
    """What must be equal in both arms, except for the tree under test."""

    tree: str
    """Digest of the artifact tree."""
    pins: dict[str, str] = Field(default_factory=dict)
    """Name to value of everything else that decides what happens: model snapshot, provider,
    harness, simulator, settings."""


class ArmObservation(Record):
    """One episode of one arm, as evidence."""

    key: PairKey
    status: PairStatus
    objective_success: bool = False
    """On the environment checker's word only."""
    failure_class: str | None = None
    """What broke; set exactly when the status is `infrastructure`."""
    broken_attempts: int = Field(default=0, ge=0)
    """Attempts at this episode that broke, whether it came to a verdict in the end or not."""
    failures: int = Field(default=0, ge=0)
    """Tool calls that failed."""
    human_requests: int = Field(default=0, ge=0)
    safety_violations: int = Field(default=0, ge=0)
    """Of all attempts at this episode, those that broke included; contract violations too."""
    contract_violations: int = Field(default=0, ge=0)
    cost: Cost = Cost()
    """Of all attempts at this episode; capped episodes at the cap."""
    fingerprint: Fingerprint
    initial_state: str | None = None
    """What the simulator called the state after reset; None if it has no name for it."""
    episode_id: str | None = None
    """Label, for finding the recording."""

    @model_validator(mode="after")
    def _only_results_have_a_verdict(self) -> Self:
        broke = self.status is PairStatus.INFRASTRUCTURE
        if self.objective_success and not self.has_verdict:
            raise ValueError(f"an episode that {_WHY[self.status]} has no success")
        if broke != (self.failure_class is not None):
            raise ValueError("failure_class says what broke, and only then")
        return self

    @property
    def broke(self) -> bool:
        return self.status is PairStatus.INFRASTRUCTURE

    @property
    def ever_broke(self) -> bool:
        """Whether any attempt broke, also if a further one came to a verdict."""
        return self.broke or self.broken_attempts > 0

    @property
    def solved_at_reset(self) -> bool:
        return self.status is PairStatus.SOLVED_AT_RESET

    @property
    def has_verdict(self) -> bool:
        """Whether it says anything about the arm."""
        return not (self.broke or self.solved_at_reset)

    @property
    def asked_a_human(self) -> bool:
        return self.status is PairStatus.NEED_HUMAN or self.human_requests > 0


class PairOutcome(StrEnum):
    """The four ways in which a pair can end, and the one in which it says nothing."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    TIED_SUCCESS = "tied_success"
    TIED_FAILURE = "tied_failure"
    EXCLUDED = "excluded"


class PairObservation(Record):
    """Both arms of one key."""

    baseline: ArmObservation
    candidate: ArmObservation

    @model_validator(mode="after")
    def _arms_share_the_key(self) -> Self:
        if self.baseline.key != self.candidate.key:
            raise ValueError(f"{self.baseline.key} and {self.candidate.key} are no pair")
        return self

    @property
    def key(self) -> PairKey:
        return self.baseline.key

    @property
    def valid(self) -> bool:
        """Both arms have a verdict."""
        return self.baseline.has_verdict and self.candidate.has_verdict

    @property
    def solved_at_reset(self) -> bool:
        """There was nothing to solve in at least one arm. No arm can do anything about that, so
        it is a property of the episode: whatever else happened, nothing broke for an arm."""
        return self.baseline.solved_at_reset or self.candidate.solved_at_reset

    @property
    def began_alike(self) -> bool:
        """Whether both arms began in the same state, as far as the simulator tells."""
        states = {self.baseline.initial_state, self.candidate.initial_state} - {None}
        return len(states) < 2

    @property
    def outcome(self) -> PairOutcome:
        if not self.valid:
            return PairOutcome.EXCLUDED
        match self.baseline.objective_success, self.candidate.objective_success:
            case False, True:
                return PairOutcome.IMPROVED
            case True, False:
                return PairOutcome.REGRESSED
            case True, True:
                return PairOutcome.TIED_SUCCESS
            case _:
                return PairOutcome.TIED_FAILURE

    @property
    def difference(self) -> int:
        """+1 improved, -1 regressed, 0 otherwise."""
        outcome = self.outcome
        return (outcome is PairOutcome.IMPROVED) - (outcome is PairOutcome.REGRESSED)

    def arm(self, side: Side) -> ArmObservation:
        return self.baseline if side is Side.BASELINE else self.candidate
