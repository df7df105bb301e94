"""What a comparison of policies came to: the file `comparison.json`, and what reports show."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from openeta_exp.domain.finding import CheckReport
from openeta_exp.domain.gate import Gate
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.record import Record
from openeta_exp.domain.verdict import GateVerdict

SCHEMA_VERSION: Literal["openeta.policy_comparison.v1"] = "openeta.policy_comparison.v1"
POLICIES = "policies"
"""The stage of these comparisons in a journal."""


class Standing(StrEnum):
    """Where a policy stands against the first one."""

    REGRESSED = "regressed"
    BETTER = "better"
    EQUIVALENT = "equivalent"
    """Shown to differ by less than the margin, either way."""
    NOT_WORSE = "not_worse"
    """Shown to lose less than the margin."""
    INCONCLUSIVE = "inconclusive"

    @property
    def shown_not_worse(self) -> bool:
        return self in (Standing.BETTER, Standing.EQUIVALENT, Standing.NOT_WORSE)


class Ending(StrEnum):
    """Why the command ended with its exit code."""

    NOT_WORSE = "not_worse"
    INCONCLUSIVE = "inconclusive"
    REGRESSED = "regressed"
    INVALID = "invalid"
    PARTIAL = "partial"


class PairCounts(Record):
    """Pairs by which side solved the episode."""

    both: int = Field(default=0, ge=0)
    baseline_only: int = Field(default=0, ge=0)
    candidate_only: int = Field(default=0, ge=0)
    neither: int = Field(default=0, ge=0)
    excluded: int = Field(default=0, ge=0)
    """Without a verdict on at least one side."""

    @property
    def pairs(self) -> int:
        """With a verdict on both sides."""
        return self.both + self.baseline_only + self.candidate_only + self.neither

    @property
    def difference(self) -> float | None:
        """Success rate of the candidate minus the baseline's."""
        return (self.candidate_only - self.baseline_only) / self.pairs if self.pairs else None


class Difference(Record):
    """An estimate of the difference of success rates, candidate minus baseline."""

    value: float
    low: float
    high: float
    level: float
    method: Literal["tango", "clustered"]
    """`clustered` where a scenario was run more than once: its repeats move together."""


class Equivalence(Record):
    """Is the difference too small to matter? Two one-sided tests."""

    margin: float
    low: float
    high: float
    level: float

    @property
    def equivalent(self) -> bool:
        return -self.margin < self.low and self.high < self.margin

    @property
    def not_worse(self) -> bool:
        return -self.margin < self.low


class TaskContrast(Record):
    """Two policies on one task."""

    task_id: str
    scene_id: str
    instruction: str
    standing: Standing
    reasons: tuple[str, ...]
    """Codes of the gate's reasons."""
    counts: PairCounts
    difference: Difference | None
    """None without pairs."""
    p_better: float | None
    p_worse: float | None
    alpha: float | None
    """Level of both tests, after Holm over all tasks of all policies."""


class ParameterRow(Record):
    """A scenario parameter at one value."""

    parameter: str
    value: JsonValue
    counts: PairCounts
    low: float | None
    high: float | None
    """95 % Newcombe interval of the difference; None without pairs. It counts scenarios, not
    their repeats."""


class HeatMapTable(Record):
    """Two parameters against each other; None where nothing ran."""

    rows_parameter: str
    columns_parameter: str
    rows: tuple[JsonValue, ...]
    columns: tuple[JsonValue, ...]
    cells: tuple[tuple[PairCounts | None, ...], ...]


class FlippedEpisode(Record):
    """An episode that one policy solved and the other did not."""

    episode_id: str
    task_id: str
    scenario: JsonObject
    repeat: int
    improved: bool
    replay: str
    """Runs this episode again under both policies."""


class LevelRow(Record):
    """Success at one level of a perturbation, among the episodes it took place in.

    The interval is Wilson's at 95 %. It counts scenarios, not their repeats.
    """

    level: float
    exposed: int
    successes: int
    unexposed: int
    broken: int
    low: float
    high: float


class SweepCurve(Record):
    """One policy on one task, level by level."""

    policy: str
    task_id: str
    scenario_set_id: str
    levels: tuple[LevelRow, ...]


class ComparedPolicy(Record):
    """One arm, on all episodes it has a verdict for."""

    name: str
    arm_digest: Digest
    identity: JsonObject
    scripted: bool
    episodes: int
    """Asked for."""
    successes: int
    broken: int
    """Ended without a verdict, or was solved at reset."""
    low: float
    high: float
    """95 % Wilson interval of the success rate among those with a verdict. It counts scenarios,
    not their repeats."""
    mean_steps: float | None
    answer_p50_s: float | None
    answer_p95_s: float | None
    """How long the policy took to answer: medians over episodes; None where not measured."""

    @property
    def verdicts(self) -> int:
        return self.episodes - self.broken

    @property
    def rate(self) -> float | None:
        return self.successes / self.verdicts if self.verdicts else None


class Contrast(Record):
    """One policy against the first."""

    comparison_id: str
    baseline: str
    candidate: str
    standing: Standing
    reasons: tuple[str, ...]
    """Sentences, the weightiest first."""
    scheduled: int
    missing: int
    """Pairs that were asked for and have no verdict, those solved at reset left out."""
    counts: PairCounts
    difference: Difference | None
    """Over every pair there is, used by the verdict or not."""
    equivalence: Equivalence | None
    better: GateVerdict
    """Is the candidate better? With several policies at the level Holm leaves."""
    worse: GateVerdict
    """The same rule with the arms exchanged: is the first policy better?"""
    tasks: tuple[TaskContrast, ...]
    parameters: tuple[ParameterRow, ...] = ()
    heat_maps: tuple[HeatMapTable, ...] = ()
    flips: tuple[FlippedEpisode, ...] = ()


class PolicyComparison(Record):
    """The whole result."""

    schema_version: Literal["openeta.policy_comparison.v1"] = SCHEMA_VERSION
    experiment_id: str
    ok: bool
    exit_code: int
    reason: Ending
    gate: Gate
    """As it was sized to the episodes there are."""
    stopped_early: bool
    """The gate could end the comparison; otherwise every episode was run."""
    catalog: JsonObject
    """Where the episodes come from, with digests of scenes and tasks."""
    scenarios: int
    repeats: int
    policies: tuple[ComparedPolicy, ...]
    contrasts: tuple[Contrast, ...]
    curves: tuple[SweepCurve, ...] = ()
    checks: CheckReport
    invalid_overridden: bool
    """The checks say that this comparison means nothing, and it was asked for all the same."""
    warnings: tuple[str, ...] = ()
    duration_s: float

    @property
    def scripted(self) -> bool:
        return any(each.scripted for each in self.policies)


def ending(
    contrasts: Sequence[Contrast], *, missing_share: float, gate_required: bool
) -> tuple[Ending, int]:
    """Reason and exit code of comparisons that were run.

    What is missing comes first: the same command can still bring it, and change the answer.

    Args:
        missing_share: Of all pairs, that is tolerated.
    """
    if any(each.missing > missing_share * each.scheduled for each in contrasts):
        return Ending.PARTIAL, 3
    if any(each.standing is Standing.REGRESSED for each in contrasts):
        return Ending.REGRESSED, 4
    if contrasts and all(each.standing.shown_not_worse for each in contrasts):
        return Ending.NOT_WORSE, 0
    return Ending.INCONCLUSIVE, 4 if gate_required else 0
