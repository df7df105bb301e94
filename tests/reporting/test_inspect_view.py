from __future__ import annotations

import io
from pathlib import Path

import pytest

from openeta_exp.adapters.registry.memory_registry import MemoryRegistry
from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.budget import Budget
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import (
    CandidateProposed,
    CandidateReviewed,
    EpisodeEnded,
    EpisodeStarted,
    Event,
)
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.stop import FailureClass
from openeta_exp.engine.author import Allowance
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.inspect_view import BatchState, Inspection, inspect, inspect_view
from tests.authoring import MortalJournal, engine_with, gepa, longer
from tests.batches import (
    AT_S,
    arm,
    broke,
    ended,
    lost,
    manifest,
    provider_metrics,
    spec,
    started,
    story,
    usage,
    won,
)
from tests.generations import lineage, plan
from tests.pauses import paused, went_on
from tests.speaking import SpeakingProvider


def inspection_of(*events: Event) -> Inspection:
    journal = MemoryJournal()
    for event in events:
        journal.append(event)
    return inspect(journal, source="journal.sqlite")


def shown(inspection: Inspection) -> str:
    out = io.StringIO()
    Console(out=out, err=out).show(inspect_view(inspection))
    return out.getvalue()


def test_a_journal_shows_its_batches_with_everything_that_ended() -> None:
    inspection = inspection_of(*story(manifest(3), [won(spec(0)), lost(spec(1)), broke(spec(2))]))

    (batch,) = inspection.batches
    assert batch.state is BatchState.FINISHED
    assert batch.summary.tally.failures == {FailureClass.BUDGET: 1, FailureClass.PROVIDER: 1}
    text = shown(inspection)
    assert "broken (provider: provider_unavailable)" in text
    assert "not solved (budget: max_turns)" in text
    assert "40 model calls" in text


def test_a_killed_batch_shows_what_was_running_and_what_never_began() -> None:
    inspection = inspection_of(
        started(manifest(3)),
        ended(won(spec(0))),
        EpisodeStarted(batch_id="exp-g000-train", episode_id="episode-1", at_s=AT_S),
    )

    (batch,) = inspection.batches
    assert batch.state is BatchState.OPEN
    assert batch.running_episode_ids == ("episode-1",)
    assert batch.unfinished_episode_ids == ("episode-1", "episode-2")
    text = shown(inspection)
    assert "begun and not ended: episode-1" in text
    assert "without an outcome: episode-1, episode-2" in text


def test_arms_are_told_apart_by_digest() -> None:
    inspection = inspection_of(
        started(manifest(1), of=arm("baseline"), batch_id="canary-baseline"),
        started(manifest(1), of=arm("candidate", tree="b"), batch_id="canary-candidate"),
    )

    assert len({batch.arm_digest for batch in inspection.batches}) == 2
    assert f"candidate {arm(tree='b').content_digest[:8]}" in shown(inspection)


def test_a_long_batch_shows_what_went_wrong_first() -> None:
    outcomes = [(lost if index == 199 else won)(spec(index)) for index in range(200)]
    text = shown(inspection_of(*story(manifest(200), outcomes)))

    assert "episode-199" in text
    assert "150 more episodes" in text


def test_an_empty_journal_is_no_error() -> None:
    assert "no batch has begun" in shown(inspection_of())


def test_the_json_form_is_read_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    writer = SqliteJournal(path)
    for event in story(manifest(2), [won(spec(0)), broke(spec(1))]):
        writer.append(event)
    # The writer still holds the journal: inspecting is allowed at any time.
    reader = SqliteJournal(path, read_only=True)
    inspection = inspect(reader, source=str(path))
    reader.close()
    writer.close()

    assert Inspection.from_json(inspection.to_json()) == inspection
    assert inspection.event_count == 6


@pytest.mark.anyio
async def test_the_rate_of_an_arm_that_is_still_running_is_of_what_has_ended() -> None:
    _, events = await lineage(16)
    held_out = [
        at
        for at, event in enumerate(events)
        if isinstance(event, EpisodeEnded) and event.batch_id.endswith("held-out-candidate")
    ]

    inspection = inspection_of(*events[: held_out[2] + 1])

    (arm_,) = (each for each in inspection.batches if each.short_id.endswith("held-out-candidate"))
    assert arm_.state is BatchState.OPEN
    solved = arm_.summary.tally.success_count
    (line,) = (each for each in shown(inspection).splitlines() if "held-out-candidate" in each)
    assert f"3/{arm_.summary.tally.episode_count} " in line
    assert f"{100 * solved / 3:.0f} %" in line


def test_the_table_says_how_many_broke_and_counts_them_neither_as_solved_nor_as_not() -> None:
    other = started(manifest(4), of=arm("other", tree="b"), batch_id="exp-g001-train")
    outcomes: list[EpisodeOutcome] = [
        won(spec(0)),
        lost(spec(1)),
        broke(spec(2)),
        broke(spec(3)),
    ]

    inspection = inspection_of(*story(manifest(4), outcomes), other)

    rows = [" ".join(each.split()) for each in shown(inspection).splitlines()]
    assert any("finished" in row and "4/4, 2 broken 1 50 % (9 to 91 %)" in row for row in rows)
    assert any("running" in row and row.endswith("0/4 0 -") for row in rows)


@pytest.mark.parametrize("count", [0, 1])
def test_an_unfinished_batch_has_no_rate_over_results(count: int) -> None:
    inspection = inspection_of(started(manifest(2)), *[ended(broke(spec(0)))] * count)

    assert inspection.batches[0].summary.success_over_results.value is None


@pytest.mark.anyio
async def test_generations_are_told_with_every_verdict_in_its_own_words() -> None:
    registry = MemoryRegistry()
    _, events = await lineage(16, 4, registry=registry)
    inspection = inspection_of(*events)

    (found,) = inspection.lineages
    assert [each.train_successes for each in found.generations] == [3, 5]
    (lane,) = (each for each in found.generations[0].lanes if each.candidate is not None)
    assert [each.stage for each in lane.comparisons] == ["canary", "held-out"]
    assert lane.promotion is not None
    text = " ".join(shown(inspection).split())
    assert "grasp_strategy: grip.r2.16 by author:by-the-book (close for 16 steps)" in text
    assert "held-out PROMOTE superior: 7 fixed, 0 regressed of 16 pairs" in text
    assert "held-out REJECT" in text
    assert "stopped held_out_rejected" in text
    assert "registry grip.r2.16: is now the validated grip" in text
    assert "1 promotion claiming +44 points" in text
    assert "an estimate that no gate selected" in text


@pytest.mark.anyio
async def test_the_tokens_of_a_journal_are_those_of_its_episodes_authors_and_reviewers() -> None:
    _, events = await lineage(16)
    used = TokenUsage(total_tokens=1_000)
    proposed = next(each for each in events if isinstance(each, CandidateProposed))
    reviewed = next(each for each in events if isinstance(each, CandidateReviewed))
    proposal = proposed.proposal.model_copy(update={"usage": used})
    events[events.index(proposed)] = proposed.model_copy(update={"proposal": proposal})
    review = reviewed.review.model_copy(update={"usage": used})
    events[events.index(reviewed)] = reviewed.model_copy(update={"review": review})

    inspection = inspection_of(*events)

    batches = sum(
        outcome.usage.tokens.total_tokens
        for batch in inspection.batches
        for outcome in batch.outcomes
    )
    assert inspection.tokens == batches + 2_000
    assert f"{inspection.tokens:,} tokens in all attempts that have ended" in shown(inspection)


def test_an_episode_that_was_answered_has_the_same_tokens_in_the_journal_and_in_its_batch() -> None:
    asked, other = paused(), won(spec(1))
    solved = went_on(won(asked.spec, attempt=1), tokens=1_700)

    inspection = inspection_of(*story(manifest(2), [asked.outcome, other]), ended(solved))

    (batch,) = inspection.batches
    assert batch.summary.tokens.total_tokens == 1_700 + other.usage.tokens.total_tokens
    assert inspection.tokens == batch.summary.tokens.total_tokens


@pytest.mark.anyio
async def test_an_arm_that_stopped_early_is_summed_up_over_what_it_ran() -> None:
    _, events = await lineage(16)
    arms = [each for each in inspection_of(*events).batches if each.short_id.endswith("candidate")]

    held_out = next(each for each in arms if "held-out" in each.batch_id)
    assert held_out.summary.tally.unfinished_count == 0
    assert held_out.summary.success_over_all.of == 16


@pytest.mark.anyio
async def test_a_lineage_under_way_shows_how_far_it_has_come() -> None:
    _, events = await lineage(16)
    planned = next(
        at
        for at, event in enumerate(events)
        if event.kind == "comparison_planned" and event.stage == "held-out"
    )
    text = shown(inspection_of(*events[: planned + 1]))

    assert "generation 0 from 6fe767bb: under way" in text
    assert "held-out  under way: up to 24 pairs" in text


@pytest.mark.anyio
async def test_one_batch_of_many_is_shown_episode_by_episode_on_request() -> None:
    _, events = await lineage(16)
    inspection = inspection_of(*events)
    out = io.StringIO()
    Console(out=out, err=out).show(inspect_view(inspection, batch_id="g000-train"))

    assert "pick-0-0" not in shown(inspection)
    assert "pick-0-0" in out.getvalue()
    assert "canary" not in out.getvalue()


@pytest.mark.anyio
async def test_what_a_proposal_took_is_shown_in_episodes_tokens_and_money() -> None:
    journal = MortalJournal()
    author = gepa(SpeakingProvider(longer), episodes=12)
    of = plan(generations=1, train=12)
    await engine_with(author, journal, of=of, allowance=Allowance(episodes=40)).run()

    inspection = inspect(journal, source="journal.sqlite")

    [strategy, skill] = inspection.lineages[0].generations[0].lanes
    effort = strategy.effort
    assert 0 < effort.episodes <= 40
    assert effort.usd is not None
    text = shown(inspection)
    assert f"author    {effort.episodes} training episodes, " in text
    assert f"{effort.tokens.total_tokens:,} tokens, ${effort.usd:.2f}" in text
    assert skill.effort.episodes == 0


def test_a_batch_run_again_with_other_limits_tells_what_its_last_run_took() -> None:
    longer_turns = spec(0).model_copy(update={"budget": Budget(max_turns=99)})
    again = Manifest(episodes=(longer_turns,))

    inspection = inspection_of(
        *story(manifest(1), [lost(spec(0))]), *story(again, [won(longer_turns)])
    )

    (batch,) = inspection.batches
    assert batch.runs == 2
    assert batch.summary.duration_s == 12.0
    assert batch.summary.provider == provider_metrics()
    assert batch.summary.tokens.total_tokens == usage(0).tokens.total_tokens
    assert "40 model calls" in shown(inspection)


def test_a_batch_run_afresh_tells_what_its_last_run_took() -> None:
    inspection = inspection_of(
        *story(manifest(1), [lost(spec(0))]), *story(manifest(1), [won(spec(0))])
    )

    assert inspection.batches[0].summary.provider == provider_metrics()


def test_a_batch_that_went_on_tells_what_all_its_runs_took() -> None:
    inspection = inspection_of(
        *story(manifest(2), [won(spec(0)), broke(spec(1))]), *story(manifest(2), [won(spec(1))])
    )

    (batch,) = inspection.batches
    assert batch.summary.duration_s == 24.0
    assert "80 model calls" in shown(inspection)


def test_the_tokens_of_a_journal_are_said_to_leave_out_what_was_cut_short() -> None:
    inspection = inspection_of(*story(manifest(1), [won(spec(0))]))

    assert "ended, without those that were cut short" in " ".join(shown(inspection).split())
