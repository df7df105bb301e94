"""An episode that waits for a person: everything it takes to start it again, and no handle."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from openeta_exp.domain.episode import EpisodeResult, Interaction
from openeta_exp.domain.event import Arm
from openeta_exp.domain.guidance import AnsweredQuestion
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.record import Record
from openeta_exp.domain.supervision import ApprovementProfile


class PausedEpisode(Record):
    """One pending question, with the episode it belongs to."""

    schema_version: Literal["openeta_exp.paused_episode.v1"] = "openeta_exp.paused_episode.v1"
    experiment_id: str
    generation: int
    phase: str
    batch_id: str
    manifest_digest: Digest
    """The manifest the episode was a row of."""
    arm: Arm
    config: JsonObject
    """The whole resolved configuration of the run, without secrets."""
    profile: ApprovementProfile
    spec: EpisodeSpec
    """The row itself: what runs again, whatever has become of the manifest file."""
    outcome: EpisodeResult
    """Counters, budgets used and assistance so far; what the batch reports meanwhile."""
    asked: tuple[str, ...]
    """Every question of the episode, the pending one included."""
    created_at_s: float
    answer: AnsweredQuestion | None = None
    """Set once somebody has answered; the episode is then being run again."""

    @model_validator(mode="after")
    def _waits(self) -> PausedEpisode:
        if self.outcome.interaction is None:
            raise ValueError("a paused episode has a question")
        return self

    @property
    def interaction(self) -> Interaction:
        assert self.outcome.interaction is not None, "checked at construction"
        return self.outcome.interaction
