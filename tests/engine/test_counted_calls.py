"""A batch's model calls are its own: not those before it, and not those beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import anyio.lowlevel
import pytest

from openeta_exp.adapters.provider.limiter import ProviderLimiter
from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import BatchEnded, BatchStarted, Event
from openeta_exp.domain.history import History
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.engine.author import Allowance
from openeta_exp.engine.batch import Observers, RunEpisode
from openeta_exp.engine.calls import counting
from openeta_exp.engine.generation import GenerationEngine
from openeta_exp.engine.policy_compare import compare_policies
from openeta_exp.engine.progress import NoProgress
from tests import batches
from tests.authoring import MortalJournal, authored, engine_with, gepa, longer
from tests.engine.test_policy_compare import plan as policy_plan
from tests.generations import lineage_engine, plan, run_everything
from tests.manual_clock import ManualClock
from tests.speaking import SpeakingProvider

pytestmark = pytest.mark.anyio

CALLS = 3
"""Of each episode."""


class Calling:
    """One provider for everybody; each episode asks it three times, others get in between."""

    def __init__(self) -> None:
        self.limiter = ProviderLimiter(2, queue_timeout_s=180.0, clock=ManualClock())
        self.count = counting(self.limiter.calls.scope)
        self.made = Counter[str]()
        """By batch; an episode that is not needed any more is cut short."""

    async def ask(self, batch_id: str) -> None:
        for _ in range(CALLS):
            self.made[batch_id] += 1
            async with self.limiter.slot():
                await anyio.lowlevel.checkpoint()

    def episodes(self, batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
        run = run_everything(batch, tree)

        async def calling(spec: EpisodeSpec) -> EpisodeOutcome:
            await self.ask(batch.batch_id)
            return await run(spec)

        return calling

    def counted(self, engine: GenerationEngine) -> GenerationEngine:
        shop = engine.workshop
        return replace(
            engine,
            workshop=replace(
                shop, episodes=self.episodes, observers=replace(shop.observers, calls=self.count)
            ),
        )


def told(journal: MemoryJournal) -> dict[str, ProviderMetrics]:
    """What each batch says of its calls, over all its runs."""
    found: dict[str, ProviderMetrics] = {}
    for _, event in journal.events():
        if isinstance(event, BatchEnded):
            assert event.provider is not None
            before = found.get(event.batch_id)
            found[event.batch_id] = event.provider if before is None else before + event.provider
    return found


def requests(found: Mapping[str, ProviderMetrics]) -> dict[str, int]:
    return {name: each.request_count for name, each in found.items() if each.request_count}


async def test_every_batch_of_a_lineage_has_the_calls_of_its_own_episodes() -> None:
    calling, journal = Calling(), MemoryJournal()
    engine = lineage_engine(plan(), journal, close_steps=(4, 16))

    await calling.counted(engine).run()

    found = told(journal)
    assert requests(found) == calling.made
    assert requests(found)["exp-g000-train"] == 6 * CALLS
    # The first candidate was worse, so this batch had every verdict already.
    nothing = found["exp-g001-train"]
    assert (nothing.request_count, nothing.max_active, nothing.max_queue_wait_s) == (0, 0, 0)
    arms = [each for name, each in found.items() if "held-out" in name]
    assert len(arms) == 4
    assert all(0 < each.max_active <= 2 for each in arms)


async def test_the_episodes_that_an_author_runs_are_counted_as_its_own() -> None:
    calling, journal = Calling(), MortalJournal()
    engine = engine_with(
        gepa(SpeakingProvider(longer)),
        journal,
        of=plan(generations=1, train=12),
        allowance=Allowance(episodes=12),
    )

    await calling.counted(engine).run()

    found = {name: each for name, each in told(journal).items() if name.endswith("-author")}
    assert sum(requests(found).values()) == CALLS * len(authored(journal.facts)) > 0
    assert requests(told(journal)) == calling.made


async def test_arms_with_providers_of_their_own_are_counted_by_these() -> None:
    planner = Calling()
    of = policy_plan({"first": lambda spec: True, "second": lambda spec: False})
    first, second = of.contestants

    async def thinks(spec: EpisodeSpec) -> EpisodeOutcome:
        await planner.ask("second")
        return await second.run(spec)

    journal = MemoryJournal()
    await compare_policies(
        replace(of, contestants=[first, replace(second, run=thinks, calls=planner.count)]),
        observers=Observers(
            journal=journal, tracker=NullTracker(), progress=NoProgress(), clock=ManualClock()
        ),
    )

    ends = {each.batch_id: each for _, each in journal.events() if isinstance(each, BatchEnded)}
    assert ends["exp-g000-policy-first"].provider is None
    second_told = ends["exp-g000-policy-second"].provider
    assert second_told is not None
    assert second_told.request_count == CALLS * len(of.manifest.episodes)


def run_of(requests: int, *, longest_s: float, most: int) -> list[Event]:
    provider = ProviderMetrics(
        limit=2,
        queue_timeout_s=180.0,
        request_count=requests,
        max_active=most,
        max_queue_wait_s=longest_s,
        total_queue_wait_s=longest_s,
        attempts=requests + 1,
        retries=1,
    )
    over = batches.batch_ended().model_copy(update={"provider": provider})
    return [batches.started(batches.manifest(1)), over]


def test_the_runs_of_a_batch_are_added_up_and_its_maxima_are_of_any_of_them() -> None:
    history = History()
    for event in [*run_of(40, longest_s=2.0, most=2), *run_of(0, longest_s=0.0, most=0)]:
        history.add(event)

    both = history.batches[0].provider
    assert both is not None
    assert (both.request_count, both.attempts, both.retries) == (40, 42, 2)
    assert (both.max_active, both.max_queue_wait_s, both.total_queue_wait_s) == (2, 2.0, 2.0)
