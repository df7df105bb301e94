"""What `openeta --command iterate` prints about a lineage."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.candidate import Review, ReviewDecision
from openeta_exp.domain.generation import GenerationResult
from openeta_exp.domain.identity import JsonObject
from openeta_exp.wire.iterate_report import iterate_report
from tests.generations import lineage

pytestmark = pytest.mark.anyio


def told(
    generations: tuple[GenerationResult, ...], *, requested: int = 2, full: bool = False
) -> JsonObject:
    return iterate_report(
        generations,
        experiment_id="exp",
        requested_rounds=requested,
        train={},
        receipts={},
        full=full,
    )


def at(value: JsonValue, *path: str | int) -> JsonValue:
    for part in path:
        if isinstance(value, dict) and isinstance(part, str):
            value = value[part]
        else:
            assert isinstance(value, list)
            assert isinstance(part, int)
            value = value[part]
    return value


async def test_a_promotion_and_a_rejection_are_told_with_their_evidence() -> None:
    result, _ = await lineage(19, 6)

    report = told(result.generations)

    assert report["schema_version"] == "openeta.command_iterate.v1"
    assert (report["ok"], report["requested_rounds"], report["completed_rounds"]) == (True, 2, 2)
    assert at(report, "rounds", 0, "promoted") is True
    assert at(report, "rounds", 0, "stop_reason") is None
    assert at(report, "rounds", 0, "grasp_strategy", "accepted_for_next_generation") is True
    assert at(report, "rounds", 0, "grasp_strategy", "held_out", "decision") == "promote"
    assert at(report, "rounds", 0, "next_baseline") == at(report, "rounds", 1, "baseline_hash")
    assert at(report, "rounds", 1, "promoted") is False
    assert at(report, "rounds", 1, "stop_reason") == "validation_regression"
    assert "result" not in str(at(report, "rounds", 0))


async def test_whole_results_are_added_on_request() -> None:
    result, _ = await lineage(6)

    report = told(result.generations, requested=1, full=True)

    assert at(report, "rounds", 0, "result") == result.generations[0].model_dump(mode="json")


async def test_a_lineage_that_is_not_over_is_not_ok() -> None:
    result, _ = await lineage(6)

    report = told(result.generations, requested=3)

    assert (report["ok"], report["completed_rounds"]) == (False, 1)


async def test_a_reviewer_that_broke_is_counted_and_nothing_was_approved() -> None:
    result, _ = await lineage(19)
    [generation] = result.generations
    lanes = tuple(
        lane.model_copy(
            update={
                "review": Review(
                    decision=ReviewDecision.REJECT, reason="none", reviewer="model", failed=True
                ),
                "promotion": None,
                "held_out": None,
            }
        )
        if lane.kind is ArtifactKind.GRASP_STRATEGY
        else lane
        for lane in generation.lanes
    )

    report = told((generation.model_copy(update={"lanes": lanes}),), requested=1)

    assert report["ok"] is False
    assert at(report, "rounds", 0, "reviewer_error_count") == 1
    assert at(report, "rounds", 0, "approved_candidate_count") == 0
    assert at(report, "rounds", 0, "stop_reason") == "no_approved_candidates"
