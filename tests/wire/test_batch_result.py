from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.episode import (
    Assistance,
    Cleanup,
    CleanupStatus,
    EpisodeOutcome,
    GraspAttempt,
    Interaction,
)
from openeta_exp.domain.stop import INFRASTRUCTURE, StopReason
from openeta_exp.domain.summary import summarise
from openeta_exp.errors import StoreError
from openeta_exp.statistics.clustered_intervals import clustered_wilson
from openeta_exp.statistics.intervals import wilson
from openeta_exp.wire.batch_result import BatchResult, batch_result, parse_batch_result
from openeta_exp.wire.outcome_row import outcome_of
from tests.batches import arm, broke, lost, manifest, provider_metrics, spec, started, won


def result_of(count: int, outcomes: list[EpisodeOutcome]) -> BatchResult:
    start = started(manifest(count))
    summary = summarise(
        start.manifest,
        outcomes,
        interval=clustered_wilson,
        duration_s=12.5,
        provider=provider_metrics(),
    )
    return batch_result(start, outcomes, summary)


def file_of(count: int, outcomes: list[EpisodeOutcome]) -> Any:
    return json.loads(result_of(count, outcomes).to_json())


def test_the_file_has_every_name_of_the_original() -> None:
    file = file_of(3, [won(spec(0)), lost(spec(1)), broke(spec(2))])

    assert file["schema_version"] == "openeta.parallel_episode_batch.v2"
    names = """batch_id concurrency duration_s episode_count success_count autonomous_success_count
        assisted_success_count agent_assisted_success_count human_assisted_success_count
        need_human_count fail_count rates outcomes provider_concurrency"""
    assert set(names.split()) <= file.keys()
    rates = """success_rate autonomous_success_rate assisted_success_rate
        agent_assisted_success_rate human_assisted_success_rate intervention_rate"""
    assert set(rates.split()) <= file["rates"].keys()
    outcome = """index episode_id env_id seed status duration_s limits session_id episode
        assistance interaction cleanup error"""
    episode = "task session_id num_steps terminated truncated metadata steps"
    metadata = """environment execution_id turn_index max_turns remaining_turns budget usage
        assistance failure_reason stop_reason waiting_for_human"""
    for row in file["outcomes"]:
        assert set(outcome.split()) <= row.keys()
        assert {"failure_class", "stop_reason"} <= row.keys()
    assert set(episode.split()) <= file["outcomes"][0]["episode"].keys()
    assert set(metadata.split()) <= file["outcomes"][0]["episode"]["metadata"].keys()
    assert file["provider_concurrency"]["schema_version"] == "openeta.provider_concurrency.v1"


def test_the_file_says_what_it_takes_to_repeat_the_run() -> None:
    file = file_of(1, [won(spec(0))])

    assert file["arm"]["arm_digest"] == arm().content_digest
    assert file["outcomes"][0]["spec_digest"] == spec(0).content_digest
    assert file["manifest_digest"] == manifest(1).content_digest
    assert file["scripted"] is True
    assert {"git_commit", "packages", "simulator", "config_digest", "prompt_digest"} <= file[
        "provenance"
    ].keys()


def test_both_rates_come_with_their_intervals() -> None:
    file = file_of(4, [won(spec(0)), won(spec(1)), lost(spec(2)), broke(spec(3))])

    assert file["rates"]["success_rate"] == 0.5
    assert file["rates"]["success_rate_over_results"] == 0.666667
    over_results = file["intervals"]["success_rate_over_results"]
    assert (over_results["count"], over_results["of"]) == (2, 3)
    assert over_results["low"] == pytest.approx(wilson(2, 3).low, abs=1e-6)


def test_a_cleanup_failure_is_told_beside_the_outcome_and_never_changes_it() -> None:
    leaked = won(spec(0)).model_copy(
        update={"cleanup": Cleanup(status=CleanupStatus.FAILED, message="close_env hung")}
    )
    row = file_of(1, [leaked])["outcomes"][0]

    assert row["status"] == "success"
    assert row["error"] == {}
    assert row["cleanup"] == {"status": "cleanup_failed", "message": "close_env hung"}


def test_a_limit_is_named_with_its_numbers() -> None:
    slow = won(spec(0), success=False, stop_reason=StopReason.TOOL_CALL_LIMIT_EXCEEDED)
    row = file_of(1, [slow.model_copy(update={"limit": 200.0, "observed": 201.0})])["outcomes"][0]

    assert row["failure_class"] == "budget"
    assert row["error"]["type"] == "EpisodeResourceLimit"
    assert row["error"]["code"] == "tool_call_limit_exceeded"
    assert (row["error"]["limit"], row["error"]["observed"]) == (200.0, 201.0)
    assert row["error"]["unit"] == "tool_calls"
    assert row["episode"]["truncated"] is True


def test_a_breakage_keeps_its_session_and_what_it_spent() -> None:
    row = file_of(1, [broke(spec(0))])["outcomes"][0]

    assert row["status"] == "fail"
    assert row["episode"] is None
    assert row["session_id"] == "episode-0-0"
    assert row["usage"]["duration_s"] == 0.5
    assert row["failure_class"] == "provider"
    assert row["error"]["code"] == "provider_unavailable"


def test_unfinished_episodes_are_listed_and_not_made_up() -> None:
    file = file_of(3, [won(spec(1))])

    assert file["unfinished_episode_ids"] == ["episode-0", "episode-2"]
    assert [row["index"] for row in file["outcomes"]] == [1]
    assert file["episode_count"] == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda file: file.pop("rates"), "rates: Field required"),
        (lambda file: file.update(extra=1), "extra: Extra inputs"),
        (lambda file: file.update(success_count=2), "counts do not follow"),
        (lambda file: file.update(schema_version="openeta.parallel_episode_batch.v1"), "v2"),
        (lambda file: file["outcomes"][0].update(error={}, episode=None), "needs an error"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change: Any, said: str) -> None:
    file = file_of(1, [won(spec(0))])
    change(file)

    with pytest.raises(StoreError, match=said):
        parse_batch_result(json.dumps(file), source="result.json")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"duration_s": NaN}'])
def test_a_file_that_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match=r"result\.json: is not a result of"):
        parse_batch_result(text, source="result.json")


_TEXTS = st.text('ab "é\n', max_size=8)
_NUMBERS = st.floats(0, 1e6, allow_nan=False)
_GRASP = st.builds(
    GraspAttempt,
    target=_TEXTS,
    candidate_rank=st.integers(0, 9),
    width_m=_NUMBERS,
    target_extents_m=st.tuples(_NUMBERS, _NUMBERS, _NUMBERS),
    reached_target=st.booleans(),
    lifted=st.none() | st.booleans(),
)


@st.composite
def outcomes(draw: st.DrawFn) -> list[EpisodeOutcome]:
    drawn: list[EpisodeOutcome] = []
    for index in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            drawn.append(
                broke(spec(index), failure_class=draw(st.sampled_from(sorted(INFRASTRUCTURE))))
            )
            continue
        success = draw(st.booleans())
        base = won(
            spec(index),
            success=success,
            stop_reason=draw(st.sampled_from(StopReason)),
            success_at_reset=not success and draw(st.booleans()),
            assistance=draw(
                st.builds(
                    Assistance,
                    guidance_interventions=st.integers(0, 2),
                    human_interventions=st.integers(0, 2),
                )
            ),
        )
        drawn.append(
            base.model_copy(
                update={
                    "limit": draw(st.none() | _NUMBERS),
                    "observed": draw(st.none() | _NUMBERS),
                    "claims_success": draw(st.none() | st.booleans()),
                    "reward": draw(_NUMBERS),
                    "grasps": tuple(draw(st.lists(_GRASP, max_size=2))),
                    "interaction": draw(
                        st.none() | st.builds(Interaction, interaction_id=_TEXTS, question=_TEXTS)
                    ),
                    "violations": tuple(draw(st.lists(_TEXTS, max_size=2))),
                }
            )
        )
    return drawn


@given(outcomes())
def test_what_was_written_is_read_back_outcome_by_outcome(drawn: list[EpisodeOutcome]) -> None:
    written = result_of(5, drawn)
    read = parse_batch_result(written.to_json(), source="result.json")

    assert read == written
    assert [outcome_of(row) for row in read.outcomes] == drawn
