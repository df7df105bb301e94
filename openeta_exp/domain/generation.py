"""What a generation came to: the same facts however often it was interrupted."""

from __future__ import annotations

from enum import StrEnum

from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.candidate import Candidate, Promotion, Review
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.record import Record
from openeta_exp.domain.verdict import Effect, GateVerdict


class LaneStop(StrEnum):
    """Why a lane ended."""

    NO_CANDIDATE = "no_candidate"
    """Nothing was proposed."""
    PROPOSAL_UNUSABLE = "proposal_unusable"
    """The author's answer is no artifact."""
    ALREADY_TRIED = "already_tried"
    """The same content was turned down before, or is in use."""
    REVIEW_BLOCKED = "review_blocked"
    CANARY_FAILED = "canary_failed"
    HELD_OUT_REJECTED = "held_out_rejected"
    HELD_OUT_INCONCLUSIVE = "held_out_inconclusive"
    PROMOTED = "promoted"


class CanaryReport(Record):
    """A smoke test without a statistical claim."""

    comparison_id: str
    pairs: int
    """Those that were solved at reset left out."""
    candidate_successes: int
    baseline_successes: int
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems


class LaneResult(Record):
    """One artifact kind's way through a generation."""

    kind: ArtifactKind
    stop: LaneStop
    reason: str = ""
    candidate: Candidate | None = None
    review: Review | None = None
    canary: CanaryReport | None = None
    held_out: GateVerdict | None = None
    promotion: Promotion | None = None


class GenerationResult(Record):
    """`result.json` of a generation."""

    experiment_id: str
    generation: int
    baseline_digest: Digest
    train_episodes: int
    train_successes: int
    lanes: tuple[LaneResult, ...]
    next_baseline_digest: Digest

    @property
    def promotions(self) -> tuple[Promotion, ...]:
        return tuple(lane.promotion for lane in self.lanes if lane.promotion is not None)


class ExperimentResult(Record):
    """What a lineage of generations came to."""

    experiment_id: str
    generations: tuple[GenerationResult, ...]
    first_digest: Digest
    last_digest: Digest
    confirmation: Effect | None = None
    """Last tree against first tree on fresh keys: an estimate that no gate has selected."""
    confirmation_skipped: str = ""
    price_usd: float | None = None
    tokens: int = 0
    """Of every run of the experiment, what was interrupted included."""
    tokens_cut_short: int = 0
    """How many of these belong to nothing that has ended: an interruption, or a verdict that came
    while an episode was still running."""
    tokens_unanswered: int = 0
    """The most that model calls can have cost besides which were cut off."""
    wall_s: float = 0.0
    """Of this run of the command; earlier runs of the same experiment are not in it."""
