"""What `openeta --command iterate` prints (`openeta.command_iterate.v1`): the lineage in short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.generation import CanaryReport, GenerationResult, LaneResult
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.publication import Receipt
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.wire.batch_result import BatchResult
from openeta_exp.wire.command_report import metrics

SCHEMA_VERSION = "openeta.command_iterate.v1"


def iterate_report(
    generations: Sequence[GenerationResult],
    *,
    experiment_id: str,
    requested_rounds: int,
    train: Mapping[int, BatchResult],
    receipts: Mapping[str, Receipt],
    full: bool,
) -> JsonObject:
    """The generations that have ended, in order.

    Args:
        train: Training results by generation.
        receipts: What a shared registry answered, by the comparison that was won.
        full: Whether to add each generation's whole result as `result`.
    """
    rounds: list[JsonValue] = [
        _round(each, train=train.get(each.generation), receipts=receipts, full=full)
        for each in generations
    ]
    errors = sum(_reviewer_errors(each) for each in generations)
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": len(generations) == requested_rounds and errors == 0,
        "experiment_id": experiment_id,
        "requested_rounds": requested_rounds,
        "completed_rounds": len(generations),
        "rounds": rounds,
    }


def _round(
    result: GenerationResult,
    *,
    train: BatchResult | None,
    receipts: Mapping[str, Receipt],
    full: bool,
) -> JsonObject:
    lanes = {lane.kind: lane for lane in result.lanes}
    proposed = [lane for lane in result.lanes if lane.candidate is not None]
    strategy, skill = lanes.get(ArtifactKind.GRASP_STRATEGY), lanes.get(ArtifactKind.SKILL)
    told: JsonObject = {
        "generation": result.generation,
        "baseline_hash": result.baseline_digest,
        "train_metrics": None if train is None else metrics(train),
        "candidate_count": len(proposed),
        "reviews": [_review(lane) for lane in proposed if lane.review is not None],
        "reviewer_error_count": _reviewer_errors(result),
        "approved_candidate_count": sum(
            lane.review is not None and lane.review.approves for lane in proposed
        ),
        "grasp_strategy": None if strategy is None else _strategy(strategy, receipts),
        "validation": None if skill is None else _verdict(skill.held_out),
        "promoted": bool(result.promotions),
        "next_baseline": result.next_baseline_digest,
        "stop_reason": _stop_reason(result),
    }
    if full:
        told["result"] = result.model_dump(mode="json")
    return told


def _strategy(lane: LaneResult, receipts: Mapping[str, Receipt]) -> JsonObject:
    promotion = lane.promotion
    receipt = None if promotion is None else receipts.get(promotion.comparison_id)
    return {
        "proposed": lane.candidate is not None,
        "candidate_hash": None if lane.candidate is None else lane.candidate.content_digest,
        "author": None if lane.candidate is None else lane.candidate.origin,
        "accepted_for_next_generation": promotion is not None,
        "publication": None if receipt is None else receipt.model_dump(mode="json"),
        "canary": _canary(lane.canary),
        "held_out": _verdict(lane.held_out),
        "stop_reason": lane.stop.value,
        "reason": lane.reason,
    }


def _canary(canary: CanaryReport | None) -> JsonValue:
    if canary is None:
        return None
    return {
        "passed": canary.passed,
        "pairs": canary.pairs,
        "baseline_successes": canary.baseline_successes,
        "candidate_successes": canary.candidate_successes,
        "problems": list(canary.problems),
    }


def _verdict(verdict: GateVerdict | None) -> JsonValue:
    if verdict is None:
        return None
    effect = verdict.effect
    return {
        "decision": verdict.decision.value,
        "reasons": list(verdict.codes),
        "pairs": effect.pairs,
        "fixed": effect.wins,
        "regressed": effect.losses,
        "difference": round(effect.difference, 6),
        "confidence_95": [round(effect.tango_95.low, 6), round(effect.tango_95.high, 6)],
        "p_value": verdict.p_value,
        "alpha": verdict.alpha,
        "sentence": verdict.sentence(),
    }


def _review(lane: LaneResult) -> JsonObject:
    assert lane.review is not None
    return {
        "kind": lane.kind.value,
        "decision": lane.review.decision.value,
        "reason": lane.review.reason,
        "reviewer": lane.review.reviewer,
        "failed": lane.review.failed,
    }


def _reviewer_errors(result: GenerationResult) -> int:
    return sum(lane.review is not None and lane.review.failed for lane in result.lanes)


def _stop_reason(result: GenerationResult) -> str | None:
    """The original's two words for a generation that promotes nothing."""
    if result.promotions:
        return None
    compared = any(lane.held_out is not None for lane in result.lanes)
    return "validation_regression" if compared else "no_approved_candidates"
