"""An episode that is solved at reset says nothing about an agent, wherever agents are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import BatchStarted, ComparisonEnded
from openeta_exp.domain.generation import ExperimentResult, LaneResult, LaneStop
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.money import Prices
from openeta_exp.domain.pair import PairStatus
from openeta_exp.domain.policy_comparison import Standing
from openeta_exp.domain.stop import StopReason
from openeta_exp.domain.training import training_episodes
from openeta_exp.engine.batch import RunEpisode
from openeta_exp.engine.draws import draw_held_out
from openeta_exp.engine.lineage_plan import LineagePlan
from openeta_exp.engine.observe_arm import observe_arm
from openeta_exp.errors import ManifestError
from tests import batches
from tests.engine.test_policy_compare import compared
from tests.engine.test_policy_compare import plan as policies
from tests.generations import lineage_engine, plan, run_everything

pytestmark = pytest.mark.anyio

Which = Callable[[EpisodeSpec], bool]


def solved(spec: EpisodeSpec, *, under: BatchStarted) -> EpisodeResult:
    return batches.won(
        spec,
        under=under.arm,
        success=False,
        stop_reason=StopReason.ENVIRONMENT_SUCCESS,
        success_at_reset=True,
    )


async def lineage(
    which: Which, *, of: LineagePlan, close_steps: int = 19
) -> tuple[ExperimentResult, MemoryJournal]:
    """One generation in a world in which some episodes are solved before anything is done."""
    journal = MemoryJournal()

    def episodes(batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
        sound = run_everything(batch, tree)

        async def run(spec: EpisodeSpec) -> EpisodeOutcome:
            return solved(spec, under=batch) if which(spec) else await sound(spec)

        return run

    engine = lineage_engine(of, journal, close_steps=(close_steps,))
    engine = replace(engine, workshop=replace(engine.workshop, episodes=episodes))
    return await engine.run(), journal


def strategy_lane(result: ExperimentResult) -> LaneResult:
    lanes = result.generations[0].lanes
    return next(lane for lane in lanes if lane.kind is ArtifactKind.GRASP_STRATEGY)


def ended(journal: MemoryJournal, stage: str) -> ComparisonEnded:
    events = (event for _, event in journal.events())
    return next(
        each for each in events if isinstance(each, ComparisonEnded) and each.stage == stage
    )


def odd(spec: EpisodeSpec) -> bool:
    """Every other episode, of every task."""
    return spec.seed % 2 == 1


async def test_the_arm_that_met_it_has_neither_won_nor_lost() -> None:
    started = batches.started(batches.manifest(1))

    seen = observe_arm(
        batches.spec(0),
        [solved(batches.spec(0), under=started)],
        arm=started.arm,
        pins={},
        prices=Prices(input_usd=None, output_usd=None),
    )

    assert seen.status is PairStatus.SOLVED_AT_RESET
    assert (seen.has_verdict, seen.broke, seen.objective_success) == (False, False, False)


async def test_a_held_out_comparison_goes_on_without_them_and_draws_replacements() -> None:
    asked = plan(generations=1)

    result, journal = await lineage(odd, of=asked)

    lane = strategy_lane(result)
    assert lane.stop is LaneStop.PROMOTED
    assert lane.held_out is not None
    found = lane.held_out.exclusions
    assert found.solved_at_reset > 0
    assert (found.broken, found.share, found.differential) == (0, 0.0, False)
    assert found.classes["candidate:solved_at_reset"] == found.solved_at_reset
    pairs = ended(journal, "held-out").pairs
    assert all(pair.valid == (pair.key.seed % 2 == 0) for pair in pairs)
    spare = {reserve.key for reserve in draw_held_out(asked, turn=0).schedule.reserves}
    assert spare & {pair.key for pair in pairs}


async def test_a_comparison_of_nothing_else_is_open_and_says_so() -> None:
    result, _ = await lineage(lambda spec: spec.seed >= 200_000, of=plan(generations=1))

    verdict = strategy_lane(result).held_out
    assert verdict is not None
    assert verdict.codes == ("too_few_pairs", "too_few_tasks")
    assert "solved at reset" in verdict.sentence()


async def test_a_canary_leaves_them_out_and_one_of_nothing_else_lets_nobody_pass() -> None:
    first = 100_000
    some, _ = await lineage(lambda spec: spec.seed in (first, first + 1), of=plan(generations=1))
    none, _ = await lineage(lambda spec: first <= spec.seed < 200_000, of=plan(generations=1))

    passed, stopped = strategy_lane(some), strategy_lane(none)
    assert passed.canary is not None
    assert (passed.canary.pairs, passed.canary.problems) == (2, ())
    assert stopped.stop is LaneStop.CANARY_FAILED
    assert "every canary episode (4) was solved at reset" in stopped.reason
    assert "solved no canary episode" not in stopped.reason


async def test_an_agent_s_flakiness_is_measured_on_the_others() -> None:
    asked = replace(plan(generations=1), flakiness_pairs=12)

    _, journal = await lineage(lambda spec: spec.seed < 3, of=asked)

    found = ended(journal, "a-a").flakiness
    assert found is not None
    assert found.pairs == 6, "half of six train episodes"
    with pytest.raises(ManifestError, match=r"every pair of the A/A comparison \(12\) was solved"):
        await lineage(lambda spec: spec.seed < 6, of=asked)


async def test_a_confirmation_is_estimated_from_the_others() -> None:
    result, journal = await lineage(odd, of=replace(plan(generations=1), confirmation_pairs=24))

    pairs = ended(journal, "confirmation").pairs
    assert result.confirmation is not None
    assert any(pair.solved_at_reset for pair in pairs)
    assert result.confirmation.pairs == sum(pair.key.seed % 2 == 0 for pair in pairs)


async def test_an_author_is_not_shown_them_as_failures() -> None:
    started = batches.started(batches.manifest(2))
    outcomes = (
        solved(batches.spec(0), under=started),
        batches.lost(batches.spec(1), under=started.arm),
    )

    shown = training_episodes(started.manifest, outcomes)

    assert [each.episode_id for each in shown] == ["episode-1"]


@pytest.mark.parametrize("repeats", [1, 3])
async def test_policies_are_compared_without_them_and_nothing_is_said_to_be_missing(
    repeats: int,
) -> None:
    of = policies({"first": lambda _: False, "good": lambda _: True}, repeats=repeats)

    def at_reset(spec: EpisodeSpec) -> bool:
        x = spec.scenario["x"]
        return isinstance(x, int) and x % 4 < 2

    def dressed(run: RunEpisode, started: BatchStarted) -> RunEpisode:
        async def dressed_run(spec: EpisodeSpec) -> EpisodeOutcome:
            return solved(spec, under=started) if at_reset(spec) else await run(spec)

        return dressed_run

    dressed_plan = replace(
        of,
        contestants=[
            replace(each, run=dressed(each.run, of.batch(each, at_s=0.0)))
            for each in of.contestants
        ],
    )
    found, _ = await compared(dressed_plan)

    good = found["good"]
    assert good.judged.standing is Standing.BETTER
    assert good.judged.counts.candidate_only == good.judged.counts.excluded == 20 * repeats
    assert good.judged.judgement.better.effect.pairs == 20
    assert 0 < good.judged.judgement.better.exclusions.solved_at_reset <= 20 * repeats
    assert good.missing == 0
