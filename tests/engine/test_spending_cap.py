"""A lineage that may not spend more stops where it is, and goes on from there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import anyio
import pytest

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.event import (
    BatchEnded,
    BatchStarted,
    ComparisonEnded,
    ComparisonPlanned,
    EpisodeEnded,
    Event,
)
from openeta_exp.domain.generation import ExperimentResult
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.engine.batch import Observers, RunEpisode, run_batch
from openeta_exp.engine.episode import run_episode
from openeta_exp.engine.progress import NoProgress
from openeta_exp.errors import SpendingCapError
from tests import batches
from tests.generations import lineage, lineage_engine, plan, run_everything
from tests.manual_clock import ManualClock
from tests.worlds import MOVE, Saying, Scene, Scenes, calls, world

pytestmark = pytest.mark.anyio

PROPOSED = (9, 19)


@dataclass
class Purse:
    """Pays for so many episodes."""

    left: int

    def episodes(self, batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
        run = run_everything(batch, tree)

        async def paid(spec: EpisodeSpec) -> EpisodeOutcome:
            if self.left == 0:
                raise SpendingCapError("money.experiment_tokens = 7: stopped")
            self.left -= 1
            return await run(spec)

        return paid


async def spend(journal: MemoryJournal, episodes: int) -> ExperimentResult | None:
    """Give the command with a cap that lets it run so many more episodes; None if it stopped."""
    engine = lineage_engine(plan(generations=len(PROPOSED)), journal, close_steps=PROPOSED)
    purse = Purse(episodes)
    engine = replace(engine, workshop=replace(engine.workshop, episodes=purse.episodes))
    result: ExperimentResult | None = None
    try:
        result = await engine.run()
    except* SpendingCapError:
        assert purse.left == 0
    return result


def events_of(journal: MemoryJournal) -> list[Event]:
    return [event for _, event in journal.events()]


def verdicts(events: list[Event]) -> list[object]:
    """What every comparison came to, and on which pairs."""
    return [
        (
            event.comparison_id,
            event.canary,
            event.verdict
            and (event.verdict.decision, event.verdict.reasons, event.verdict.p_value),
            [pair.key for pair in event.pairs],
        )
        for event in events
        if isinstance(event, ComparisonEnded)
    ]


@pytest.mark.parametrize("episodes", [1, 5, 17])
async def test_a_cap_that_is_raised_again_and_again_changes_no_verdict(episodes: int) -> None:
    whole, told = await lineage(*PROPOSED)
    journal = MemoryJournal()

    stops = 0
    while (finished := await spend(journal, episodes)) is None:
        stops += 1

    events = events_of(journal)
    runs = [event.outcome for event in events if isinstance(event, EpisodeEnded)]
    twice = Counter((run.arm_digest, run.spec_digest) for run in runs).most_common(1)
    assert stops >= 10 or episodes > 5
    assert verdicts(events) == verdicts(told)
    assert [each.next_baseline_digest for each in finished.generations] == [
        each.next_baseline_digest for each in whole.generations
    ]
    assert not any(isinstance(each, EpisodeFailure) for each in runs)
    assert twice[0][1] == 1, "no episode that had ended was run again"


async def test_a_comparison_that_was_stopped_has_no_verdict_and_keeps_its_terms() -> None:
    _, told = await lineage(*PROPOSED)
    held_out = next(
        event for event in told if isinstance(event, ComparisonEnded) and event.stage == "held-out"
    )
    before = sum(isinstance(event, EpisodeEnded) for event in told[: told.index(held_out)])
    journal = MemoryJournal()

    stopped = await spend(journal, before - 6)
    first = events_of(journal)
    await spend(journal, 2)
    await spend(journal, 1_000)

    plans = [
        event.model_copy(update={"at_s": 0.0})
        for event in events_of(journal)
        if isinstance(event, ComparisonPlanned) and event.comparison_id == held_out.comparison_id
    ]
    assert stopped is None
    assert not any(
        isinstance(event, ComparisonEnded) and event.comparison_id == held_out.comparison_id
        for event in first
    )
    assert len(plans) == 3
    assert plans[0] == plans[1] == plans[2], "as it was registered before the first pair"
    assert verdicts(events_of(journal)) == verdicts(told)


async def test_every_environment_is_closed_once_and_no_episode_counts_as_broken() -> None:
    never = anyio.Event()

    def refuse_the_last(scene: Scene, spec: EpisodeSpec) -> None:
        def before(name: str) -> object:
            if name != "move_to":
                return None
            if scenes.in_flight < 3:
                return never
            raise SpendingCapError("money.experiment_tokens = 7: stopped")

        scene.before = before

    scenes = Scenes(refuse_the_last)
    journal = MemoryJournal()
    episodes = world(Saying(calls(MOVE)), scenes=scenes)
    with pytest.raises(ExceptionGroup) as stopped:
        await run_batch(
            batches.started(batches.manifest(3)),
            run_episode=lambda spec: run_episode(spec, world=episodes),
            observers=Observers(
                journal=journal, tracker=NullTracker(), progress=NoProgress(), clock=ManualClock()
            ),
        )

    assert stopped.group_contains(SpendingCapError)
    assert [scene.closes for scene in scenes.opened] == [1, 1, 1]
    assert not any(isinstance(event, EpisodeEnded) for event in events_of(journal))
    assert [event.interrupted for event in events_of(journal) if isinstance(event, BatchEnded)] == [
        True
    ]
