"""What resuming an episode prints (`openeta.parallel_episode_resume.v1`)."""

from __future__ import annotations

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.wire.outcome_row import outcome_row

SCHEMA_VERSION = "openeta.parallel_episode_resume.v1"


def resume_report(spec: EpisodeSpec, outcome: EpisodeOutcome, *, index: int) -> JsonObject:
    """The outcome as the result file lists it.

    Args:
        index: Position in the batch's manifest, from 0.
    """
    row = outcome_row(index, spec, outcome)
    return {"schema_version": SCHEMA_VERSION, "outcome": row.model_dump(mode="json")}
