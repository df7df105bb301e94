"""The closed union of facts a journal keeps and a tracker may show."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.domain.record import Record, digest


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


Event = Annotated[
    BatchStarted | EpisodeStarted | EpisodeEnded | BatchEnded, Field(discriminator="kind")
]
