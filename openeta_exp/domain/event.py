"""The closed union of facts a journal keeps and a tracker may show."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import AuthorReply, Promotion, Proposal, Review
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.gate import Flakiness, Gate, Terms
from openeta_exp.domain.generation import CanaryReport, GenerationResult
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.domain.pair import PairObservation
from openeta_exp.domain.publication import Receipt
from openeta_exp.domain.record import Record, digest
from openeta_exp.domain.verdict import GateVerdict


class Arm(Record):
    """One side of a comparison: everything besides the episode that decides what happens."""

    label: str
    """What a person calls it: `train`, `baseline`, `candidate`, a policy's name."""
    tree_digest: Digest
    settings: JsonObject
    """The settings that influence behaviour (planner, provider model, simulator, profile)."""
    scripted: bool
    """True if any model behind this arm is a scripted one; stamped in every result."""

    @property
    def content_digest(self) -> Digest:
        """Identity of the arm: never its label."""
        return Digest(digest({"tree": self.tree_digest, "settings": self.settings}))


class Provenance(Record):
    """What it takes to repeat a run."""

    openeta_exp_version: str
    git_commit: str | None
    git_dirty: bool | None
    python: str
    platform: str
    packages: dict[str, str]
    simulator: JsonObject
    """What the simulator reports of itself: server, backends, GL, render quality."""
    perception: JsonObject
    config_digest: Digest
    manifest_digest: Digest
    prompt_digest: Digest


class BatchStarted(Record):
    """A set of episodes is about to run under one arm."""

    kind: Literal["batch_started"] = "batch_started"
    batch_id: str
    """Stable: the same command names the same batch."""
    experiment_id: str
    generation: int
    phase: str
    arm: Arm
    manifest: Manifest
    concurrency: int
    config: JsonObject
    """The resolved configuration, without secrets."""
    provenance: Provenance
    at_s: float


class EpisodeStarted(Record):
    """An attempt has begun. One without a later `EpisodeEnded` of the same episode was lost."""

    kind: Literal["episode_started"] = "episode_started"
    batch_id: str
    episode_id: str
    at_s: float


class EpisodeEnded(Record):
    """An episode has its outcome."""

    kind: Literal["episode_ended"] = "episode_ended"
    batch_id: str
    outcome: EpisodeOutcome
    at_s: float


class BatchEnded(Record):
    """Every episode of the batch has an outcome, or the batch was interrupted."""

    kind: Literal["batch_ended"] = "batch_ended"
    batch_id: str
    duration_s: float
    interrupted: bool
    provider: ProviderMetrics | None
    at_s: float


class GenerationStarted(Record):
    """A generation begins from a baseline."""

    kind: Literal["generation_started"] = "generation_started"
    experiment_id: str
    generation: int
    baseline: ArtifactTree
    behaviour: JsonObject = Field(default_factory=dict)
    design: JsonObject = Field(default_factory=dict)
    """Both as in the generation's record, so that the journal knows them without its folder."""
    at_s: float


class AuthorAnswered(Record):
    """The model of an author that asks more than once has answered."""

    kind: Literal["author_answered"] = "author_answered"
    experiment_id: str
    generation: int
    lane: ArtifactKind
    request_digest: Digest
    """Of what it was asked: the same question again is answered from the journal."""
    reply: AuthorReply
    at_s: float


class CandidateProposed(Record):
    """An author has proposed. Kept whole, so that an interrupted generation asks only once."""

    kind: Literal["candidate_proposed"] = "candidate_proposed"
    experiment_id: str
    generation: int
    lane: ArtifactKind
    proposal: Proposal
    at_s: float


class CandidateReviewed(Record):
    """The independent reviewer has answered."""

    kind: Literal["candidate_reviewed"] = "candidate_reviewed"
    experiment_id: str
    generation: int
    lane: ArtifactKind
    candidate_digest: Digest
    review: Review
    at_s: float


class ComparisonPlanned(Record):
    """A comparison is pre-registered: what will be run and how it will be judged."""

    kind: Literal["comparison_planned"] = "comparison_planned"
    comparison_id: str
    experiment_id: str
    generation: int
    stage: str
    """`canary`, `held-out`, `confirmation` or `a-a`."""
    baseline_batch_id: str
    candidate_batch_id: str
    schedule_digest: Digest
    scheduled_pairs: int
    gate: Gate | None
    """None for a canary, which makes no statistical claim."""
    terms: Terms | None
    at_s: float


class ComparisonEnded(Record):
    """A comparison has its verdict, or its report if it has no gate."""

    kind: Literal["comparison_ended"] = "comparison_ended"
    comparison_id: str
    experiment_id: str
    generation: int
    stage: str
    verdict: GateVerdict | None
    canary: CanaryReport | None
    flakiness: Flakiness | None = None
    """Of an A/A comparison: how often the baseline disagrees with itself."""
    pairs: tuple[PairObservation, ...]
    """Those the verdict rests on, in schedule order, excluded ones included."""
    duration_s: float
    at_s: float


class Promoted(Record):
    """A candidate has become part of the next baseline."""

    kind: Literal["promoted"] = "promoted"
    experiment_id: str
    promotion: Promotion
    tree: ArtifactTree
    """The next baseline, whole."""
    at_s: float


class Published(Record):
    """A shared registry has answered to the publication of a promoted artifact."""

    kind: Literal["published"] = "published"
    experiment_id: str
    generation: int
    comparison_id: str
    receipt: Receipt
    at_s: float


class GenerationEnded(Record):
    """A generation is over."""

    kind: Literal["generation_ended"] = "generation_ended"
    result: GenerationResult
    at_s: float


BatchEvent = BatchStarted | EpisodeStarted | EpisodeEnded | BatchEnded
"""What belongs to one batch."""

LineageEvent = (
    GenerationStarted
    | AuthorAnswered
    | CandidateProposed
    | CandidateReviewed
    | ComparisonPlanned
    | ComparisonEnded
    | Promoted
    | Published
    | GenerationEnded
)
"""What belongs to an experiment's lineage."""

Event = Annotated[BatchEvent | LineageEvent, Field(discriminator="kind")]
