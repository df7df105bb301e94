"""What a gate answers: promote, reject or inconclusive, with every reason and all evidence."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self, assert_never

from pydantic import Field, model_validator

from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import Flakiness, Tier
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.pair import Cost, PairKey, total_cost
from openeta_exp.domain.record import Record


class Decision(StrEnum):
    """Only PROMOTE changes the baseline.

    A rejected candidate should not be proposed again; an inconclusive one may be tested again, on
    fresh keys.
    """

    PROMOTE = "promote"
    REJECT = "reject"
    INCONCLUSIVE = "inconclusive"


class Ground(StrEnum):
    """The closed vocabulary of reasons."""

    SUPERIOR = "superior"
    NONINFERIOR_CHEAPER = "noninferior_cheaper"
    NO_REGRESSION = "no_regression"
    WORSE = "worse"
    FUTILE = "futile"
    GUARDRAIL = "guardrail"
    SAFETY = "safety"
    CONTRACT = "contract"
    FLOOR = "floor"
    REGRESSION = "regression"
    BUDGET = "budget"
    TOO_FEW_PAIRS = "too_few_pairs"
    TOO_FEW_TASKS = "too_few_tasks"
    INCOMPARABLE = "incomparable"
    DIFFERENTIAL_EXCLUSION = "differential_exclusion"
    AA_FAILED = "aa_failed"
    HELDOUT_EXHAUSTED = "heldout_exhausted"

    @property
    def decision(self) -> Decision:
        """What this reason alone would lead to."""
        match self:
            case Ground.SUPERIOR | Ground.NONINFERIOR_CHEAPER | Ground.NO_REGRESSION:
                return Decision.PROMOTE
            case (
                Ground.WORSE
                | Ground.FUTILE
                | Ground.GUARDRAIL
                | Ground.SAFETY
                | Ground.CONTRACT
                | Ground.FLOOR
                | Ground.REGRESSION
            ):
                return Decision.REJECT
            case (
                Ground.BUDGET
                | Ground.TOO_FEW_PAIRS
                | Ground.TOO_FEW_TASKS
                | Ground.INCOMPARABLE
                | Ground.DIFFERENTIAL_EXCLUSION
                | Ground.AA_FAILED
                | Ground.HELDOUT_EXHAUSTED
            ):
                return Decision.INCONCLUSIVE
            case _:
                assert_never(self)


class Reason(Record):
    """One ground, what it concerns, and one sentence for a person."""

    ground: Ground
    subject: str | None = None
    """The metric of a guardrail, the field that is incomparable."""
    message: str

    @property
    def code(self) -> str:
        """Stable, e.g. `superior` or `guardrail:need_human`."""
        return f"{self.ground}:{self.subject}" if self.subject else str(self.ground)


_BY_WEIGHT = (Decision.REJECT, Decision.INCONCLUSIVE, Decision.PROMOTE)


def weightiest_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """What rejects, what leaves open, what promotes; otherwise in the order given."""
    return tuple(sorted(reasons, key=lambda reason: _BY_WEIGHT.index(reason.ground.decision)))


def decide(reasons: tuple[Reason, ...]) -> Decision:
    """What reasons add up to: one rejects, else one leaves it open, else they promote.

    Raises:
        ValueError: If there is no reason.
    """
    decisions = {reason.ground.decision for reason in reasons}
    for decision in _BY_WEIGHT:
        if decision in decisions:
            return decision
    raise ValueError("a verdict needs a reason")


class Bounds(Record):
    """A two-sided interval."""

    low: float
    high: float
    level: float


class Effect(Record):
    """What the valid pairs say about the difference of success rates, candidate minus baseline.

    The effect of a promotion was selected by its gate and is optimistic; that of a confirmation
    run is not.
    """

    pairs: int = Field(ge=0)
    wins: int = Field(ge=0)
    """Only the candidate solved it."""
    losses: int = Field(ge=0)
    """Only the baseline solved it."""
    both: int = Field(ge=0)
    neither: int = Field(ge=0)
    difference: float
    tango_95: Bounds
    """Not adjusted for early stopping; covers 93 to 96 % after one."""
    tango_90: Bounds
    anytime_95: Bounds
    """Valid at any stop, and wide for it."""
    win_ratio: float | None
    """Wins over losses; None without losses."""
    win_ratio_low: float
    win_ratio_high: float | None
    """Liddell's exact 95 % ends; None is unbounded."""
    superior_probability: float
    """Posterior, for reading. It decides nothing."""
    worthwhile_probability: float
    """Posterior probability of a gain above the smallest that matters."""
    posterior_mean: float


class TaskEffect(Record):
    """One task's share of the evidence. Three to ten pairs a task are a weak alarm."""

    task_id: str
    pairs: int
    wins: int
    losses: int
    difference: float
    tango_90: Bounds
    harm_p: float
    """Exact p-value of harm, Holm-adjusted over tasks."""


class GuardrailRow(Record):
    """One line of the guardrail table. Rates are per episode, costs are means per episode."""

    metric: str
    policy: str
    baseline: float
    candidate: float
    change: float
    """Difference of rates, or ratio of costs."""
    low: float
    high: float
    """90 % interval of the change."""
    p_value: float | None = None
    blocks: bool
    warns: bool = False


class Exclusions(Record):
    """Pairs without a verdict: those that broke, by the arm that broke, with what they could hide,
    and those that were solved at reset.

    The latter are told and stop nothing. The environment decides them before an arm acts, the same
    way for both, so they cannot favour one, and running them again would not help.
    """

    baseline_only: int = Field(ge=0)
    candidate_only: int = Field(ge=0)
    both: int = Field(ge=0)
    solved_at_reset: int = Field(default=0, ge=0)
    """Pairs in which there was nothing to solve; no part of the counts above."""
    candidate_breaks: int = Field(default=0, ge=0)
    """Pairs in which attempts of the candidate alone broke, whether they were tried again until
    there was a verdict or given up. Who breaks when it would lose gains by being tried again."""
    baseline_breaks: int = Field(default=0, ge=0)
    """The same, of the baseline alone."""
    share: float
    """Of broken ones among the pairs that were run and not solved at reset."""
    p_value: float
    """Exact, that the candidate breaks in no more pairs than the baseline."""
    differential: bool
    classes: dict[str, int] = Field(default_factory=dict)
    """`side:failure_class`, or `side:solved_at_reset`, to count."""
    worst_case_wins: int
    worst_case_losses: int
    worst_case_p: float
    """The comparison if every crash of the candidate were a failure."""

    @property
    def broken(self) -> int:
        return self.baseline_only + self.candidate_only + self.both

    @property
    def excluded(self) -> int:
        return self.broken + self.solved_at_reset


class EvidencePoint(Record):
    """One look: where the comparison stood, and where the boundaries were."""

    pairs: int
    wins: int
    losses: int
    wins_to_promote: int | None = None
    """None where the mode has no such boundary, or this look could not promote."""
    lead_to_continue: float | None = None
    """Smallest `wins - losses` at which it goes on; None where it cannot give up."""
    p_value: float | None = None
    e_value: float
    conditional_power: float | None = None


class GateVerdict(Record):
    """The answer, with everything that is needed to check it."""

    decision: Decision
    reasons: tuple[Reason, ...] = Field(min_length=1)
    """Every one; the first is the headline."""
    mode: str
    tier: Tier
    alpha: float | None
    """The level used, after the ledger; None in the mode that has none."""
    p_value: float | None
    """One-sided, of the mode's own test, at the stop; None where the mode has none."""
    e_value: float
    n_max: int | None = None
    """As it stood at the stop; None in modes without."""
    effect: Effect
    tasks: tuple[TaskEffect, ...] = ()
    guardrails: tuple[GuardrailRow, ...] = ()
    exclusions: Exclusions
    path: tuple[EvidencePoint, ...] = ()
    improved: tuple[PairKey, ...] = ()
    regressed: tuple[PairKey, ...] = ()
    """Shown in every mode; it decides in the original rule only."""
    overrun: int = 0
    """Pairs that ran but came after the stop."""
    unequal_starts: int = 0
    """Pairs whose arms began in different states. They are evidence all the same, as neither arm
    is favoured, but noisier than they need be."""
    more_pairs: int | None = None
    """Further pairs that would probably decide, were the effect seen the true one, and at least
    those without which the gate decides nothing; None if the candidate is not ahead, if more pairs
    are not what is missing, or if the comparison is decided."""
    baseline_cost: Cost
    candidate_cost: Cost
    schedule_digest: Digest
    resampling_seed: int
    identical_pass_probability: float | None = None
    """Chance that the rule "no episode got worse" would promote an identical agent here."""
    flakiness: Flakiness | None = None

    @model_validator(mode="after")
    def _decision_follows_from_reasons(self) -> Self:
        if self.decision is not decide(self.reasons):
            raise ValueError(f"{self.decision} does not follow from {self.codes}")
        return self

    @property
    def promotes(self) -> bool:
        return self.decision is Decision.PROMOTE

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(reason.code for reason in self.reasons)

    def sentence(self) -> str:
        """The verdict in one line, for a person."""
        effect, bounds = self.effect, self.effect.tango_95
        parts = [
            f"{self.decision.upper()} {', '.join(self.codes)}: {effect.wins} fixed, "
            f"{effect.losses} regressed of {counted(effect.pairs, 'pair')}, "
            f"{counted(100 * effect.difference, 'point', spec='+.0f')} "
            f"(95 % CI {_points(bounds.low)}..{_points(bounds.high)})"
        ]
        if self.p_value is not None and self.alpha is not None:
            relation = "<=" if self.p_value <= self.alpha else ">"
            parts.append(f"p={self.p_value:.3g} {relation} {self.alpha:.3g}")
        else:
            parts.append(f"e-value {self.e_value:.3g}")
        parts += [
            f"need_human {row.baseline * effect.pairs:.0f} to {row.candidate * effect.pairs:.0f}"
            for row in self.guardrails
            if row.metric == "need_human" and max(row.baseline, row.candidate) > 0
        ]
        parts += [
            f"{row.metric} ×{row.change:.2f}" for row in self.guardrails if row.policy == "cost"
        ]
        if self.exclusions.excluded:
            at_reset = self.exclusions.solved_at_reset
            parts.append(
                f"{counted(self.exclusions.excluded, 'pair')} excluded"
                + (f" ({at_reset} solved at reset)" if at_reset else "")
            )
        if self.unequal_starts:
            parts.append(
                f"the arms of {counted(self.unequal_starts, 'pair')} began in different states, "
                "because seeds do not fix the initial state in this simulator"
            )
        parts.append(self._cost())
        if self.outlook:
            parts.append(self.outlook)
        return "; ".join(parts)

    @property
    def outlook(self) -> str:
        """What it would take to decide; empty if that is not known."""
        if self.more_pairs is None:
            return ""
        words = f"about {counted(self.more_pairs, 'more pair')} would decide"
        needed = self.effect.pairs + self.more_pairs
        if self.n_max is not None and needed > self.n_max:
            words += f", if the gate could use {needed}"
        return words

    def _cost(self) -> str:
        spent = total_cost((self.baseline_cost, self.candidate_cost))
        price = "" if spent.price_usd is None else f", ${spent.price_usd:,.2f}"
        return f"cost {counted(spent.tokens, 'token')}{price}"


def _points(rate: float) -> str:
    return f"{100 * rate:+.0f}"


class LedgerEntry(Record):
    """One test that was run, in order."""

    generation: int = Field(ge=0)
    comparison_id: str
    alpha: float | None
    p_value: float | None
    e_value: float
    decision: Decision
    codes: tuple[str, ...]
    pairs: int
    difference: float
    tokens: int


class Ledger(Record):
    """Every test of an experiment, so that many tries do not add up to a false promotion."""

    horizon: int = Field(ge=1)
    """Planned number of tests."""
    fdr: float = Field(default=0.20, gt=0, lt=1)
    """Wanted share of false ones among promotions."""
    cap: float = Field(default=0.05, gt=0, lt=1)
    entries: tuple[LedgerEntry, ...] = ()

    def with_verdict(self, verdict: GateVerdict, *, generation: int, comparison_id: str) -> Ledger:
        """The ledger with one more test."""
        entry = LedgerEntry(
            generation=generation,
            comparison_id=comparison_id,
            alpha=verdict.alpha,
            p_value=verdict.p_value,
            e_value=verdict.e_value,
            decision=verdict.decision,
            codes=verdict.codes,
            pairs=verdict.effect.pairs,
            difference=verdict.effect.difference,
            tokens=verdict.baseline_cost.tokens + verdict.candidate_cost.tokens,
        )
        return self.model_copy(update={"entries": (*self.entries, entry)})

    @property
    def claimed_gain(self) -> float:
        """Sum of promoted effects. Selected, hence optimistic: compare with a confirmation run."""
        return sum(entry.difference for entry in self.entries if entry.decision is Decision.PROMOTE)
