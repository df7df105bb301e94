"""What an author's model is asked for, and the revision of a strategy that its answer is."""

from __future__ import annotations

from importlib.resources import files

from openeta_exp.domain.grasp_strategy import GraspStrategy, check_revision, parse_strategy
from openeta_exp.domain.model import ModelMessage, ModelRequest, ModelRole
from openeta_exp.domain.record import canonical_json
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.wire.authoring import AuthorAnswer, render_evidence

PROMPT = (
    files("openeta_exp.adapters.authoring").joinpath("author_prompt.md").read_text(encoding="utf-8")
)
MAX_OUTPUT_TOKENS = 4096


def revision_request(evidence: TrainingEvidence) -> ModelRequest:
    """Asks for one revision of the first grasp strategy of the evidence's tree."""
    return ModelRequest(
        role=ModelRole.STRATEGY_AUTHOR,
        messages=(
            ModelMessage(role="system", text=PROMPT),
            ModelMessage(role="user", text=render_evidence(evidence)),
        ),
        max_output_tokens=MAX_OUTPUT_TOKENS,
    )


def written_revision(answer: AuthorAnswer, in_use: GraspStrategy) -> GraspStrategy | None:
    """The strategy of an answer; None if nothing should change.

    Raises:
        ArtifactError: The strategy breaks its schema or is no revision.
    """
    if answer.strategy is None:
        return None
    written = parse_strategy(canonical_json(answer.strategy), source="the author's strategy")
    check_revision(written, in_use)
    return written


def stamped(
    strategy: GraspStrategy, evidence: TrainingEvidence, *, author: str, rationale: str
) -> GraspStrategy:
    """The strategy with its provenance."""
    return strategy.model_copy(
        update={
            "provenance": {
                "author": author,
                "experiment_id": evidence.experiment_id,
                "generation": evidence.generation,
                "rationale": rationale,
            }
        }
    )
