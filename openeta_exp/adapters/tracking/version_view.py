"""What a version of a skill or strategy says of itself. Pure; knows MLflow's shapes."""

from __future__ import annotations

from openeta_exp.adapters.tracking.comparison_view import is_decisive
from openeta_exp.domain.artifact import Artifact
from openeta_exp.domain.lineage_story import Comparison, LineageStory
from openeta_exp.domain.tree_diff import tree_diff

EVIDENCE_TAG = "mlflow.prompt.run_ids"
"""The page of a version links to this run, and the run to the version."""


def origin_of(story: LineageStory, artifact: Artifact) -> tuple[str, str]:
    """Where an artifact comes from, as a commit message and a difference of texts."""
    for generation in story.generations.values():
        for lane in generation.lanes.values():
            candidate = lane.proposal.candidate
            if candidate is None or candidate.artifact != artifact:
                continue
            before = story.trees.get(candidate.parent_digest, generation.baseline)
            why = f": {candidate.rationale}" if candidate.rationale else ""
            took = f"; it took {lane.proposal.effort}" if lane.proposal.effort.episodes else ""
            message = f"generation {generation.number}, {candidate.origin}{why}{took}"
            return message, tree_diff(before, candidate.applied_to(before))
    return "the lineage began with it", ""


def predecessor_of(story: LineageStory, artifact: Artifact) -> Artifact | None:
    """What an artifact took the place of when it was promoted; None if it never was."""
    for comparison in story.comparisons.values():
        candidate = comparison.candidate
        if comparison.promotion is None or candidate is None or candidate.artifact != artifact:
            continue
        name = candidate.supersedes or artifact.name
        return comparison.baseline.get(artifact.kind, name)
    return None


def evidence(comparison: Comparison, run_id: str, *, page: str) -> dict[str, str]:
    """What a version's page says of a comparison.

    Args:
        page: Address of the comparison's own page.
    """
    stage = comparison.planned.stage
    tags = {stage: comparison.sentence, f"{stage}_run": run_id}
    if is_decisive(comparison):
        tags[EVIDENCE_TAG] = run_id
    if comparison.promotion is not None:
        tags["promoted"] = f"generation {comparison.promotion.generation}"
        tags["evidence"] = page
    if comparison.published is not None:
        tags["published"] = comparison.published.standing.value
    return tags
