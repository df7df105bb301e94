"""What authors and reviewers are told and answer, as text."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass

from pydantic import JsonValue

from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.candidate import Candidate, ReviewDecision
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import parse_json
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.wire.model_json import AnswerError, the_object

EVIDENCE_SCHEMA = "openeta_exp.training_evidence.v1"
REVIEW_SCHEMA = "openeta_exp.candidate_review.v1"


class AuthoringError(ValueError):
    """The answer is not what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorAnswer:
    """An author's answer.

    Attributes:
        strategy: None means: change nothing.
    """

    reason: str
    strategy: JsonObject | None


def render_evidence(evidence: TrainingEvidence) -> str:
    """One JSON object: the strategy in use, the training episodes, what was tried before."""
    in_use: list[JsonValue] = [
        parse_json(artifact.text) for artifact in evidence.tree.of(ArtifactKind.GRASP_STRATEGY)
    ]
    value: JsonObject = {
        "schema_version": EVIDENCE_SCHEMA,
        "generation": evidence.generation,
        "strategy_in_use": in_use[0] if in_use else None,
        "episodes": [episode.model_dump(mode="json") for episode in evidence.episodes],
        "earlier_candidates": [
            {
                "generation": each.generation,
                "strategy": parse_json(each.text),
                "stopped_by": each.stop,
                "reason": each.reason,
            }
            for each in evidence.earlier
        ],
    }
    return json.dumps(value)


def render_candidate(candidate: Candidate, evidence: TrainingEvidence) -> str:
    """One JSON object: the change, its diff, and the evidence it rests on."""
    kind = candidate.artifact.kind
    before = evidence.tree.get(kind, candidate.supersedes or candidate.artifact.name)
    old = "" if before is None else before.text
    value: JsonObject = {
        "schema_version": REVIEW_SCHEMA,
        "kind": kind.value,
        "name": candidate.artifact.name,
        "takes_the_place_of": None if before is None else before.name,
        "text": candidate.artifact.text,
        "diff": diff(old, candidate.artifact.text),
        "origin": candidate.origin,
        "rationale": candidate.rationale,
        "supporting_episode_ids": list[JsonValue](candidate.supporting_episode_ids),
        "training": {
            "episodes": len(evidence.episodes),
            "successes": sum(episode.success for episode in evidence.episodes),
        },
    }
    return json.dumps(value)


def diff(old: str, new: str) -> str:
    """A unified diff of two texts."""
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), "before", "after", lineterm="", n=2
    )
    return "\n".join(lines)


def parse_author(text: str) -> AuthorAnswer:
    """Raises: AuthoringError: The answer is no decision, or proposes without a strategy."""
    fields = _object(text)
    reason = str(fields.get("reason") or "")
    strategy = fields.get("strategy")
    match fields.get("decision"):
        case "no_change":
            return AuthorAnswer(reason=reason, strategy=None)
        case "propose" if isinstance(strategy, dict):
            return AuthorAnswer(reason=reason, strategy=strategy)
        case "propose":
            raise AuthoringError("the author proposes without a `strategy` object")
        case other:
            raise AuthoringError(f"`decision` must be propose or no_change, not {other!r}")


def parse_review(text: str) -> tuple[ReviewDecision, str]:
    """Raises: AuthoringError: The answer is no decision."""
    fields = _object(text)
    decision = fields.get("decision")
    try:
        return ReviewDecision(str(decision)), str(fields.get("reason") or "")
    except ValueError as error:
        raise AuthoringError(
            f"`decision` must be approve, reject or abstain, not {decision!r}"
        ) from error


def _object(text: str) -> JsonObject:
    try:
        return the_object(text, keys={"decision"})
    except AnswerError as error:
        raise AuthoringError(str(error)) from error
