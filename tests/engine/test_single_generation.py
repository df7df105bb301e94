"""One generation at a time comes to the same as all of them in one go."""

from __future__ import annotations

import pytest

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.domain.event import Event, Promoted
from openeta_exp.domain.generation import ExperimentResult
from openeta_exp.engine.lineage import LineageHistory
from openeta_exp.errors import SettingsError
from tests.generations import lineage, lineage_engine, plan

pytestmark = pytest.mark.anyio

STEPS = (12, 6, 19)


async def one_by_one(journal: MemoryJournal) -> list[ExperimentResult]:
    """As the jobs of a sweep: each engine knows nothing but the journal."""
    results = []
    for generation in range(len(STEPS)):
        engine = lineage_engine(plan(generations=len(STEPS)), journal, close_steps=STEPS)
        results.append(await engine.run_alone(generation))
    return results


def history(journal: MemoryJournal) -> LineageHistory:
    return LineageHistory(event for _, event in journal.events())


def promoted(events: list[Event]) -> list[str]:
    return [event.promotion.to_digest for event in events if isinstance(event, Promoted)]


async def test_generations_one_by_one_come_to_the_same_as_in_one_go() -> None:
    journal = MemoryJournal()

    results = await one_by_one(journal)
    at_once, events = await lineage(*STEPS)

    assert results[-1] == at_once
    assert len(promoted(events)) == 2
    assert promoted([event for _, event in journal.events()]) == promoted(events)
    assert [len(result.generations) for result in results] == [1, 2, 3]


async def test_only_the_last_generation_is_followed_by_the_confirmation() -> None:
    journal = MemoryJournal()

    results = await one_by_one(journal)

    assert [result.confirmation is None for result in results] == [True, True, False]
    assert results[0].confirmation_skipped == "the lineage goes on"
    assert history(journal).confirmation == results[-1].confirmation
    assert not history(journal).awaits_confirmation


async def test_a_lineage_cut_short_before_its_confirmation_still_awaits_it() -> None:
    journal = MemoryJournal()
    engine = lineage_engine(plan(generations=3), journal, close_steps=STEPS)

    await engine.run_alone(0)

    assert history(journal).awaits_confirmation


async def test_a_generation_whose_predecessor_has_not_ended_is_refused() -> None:
    journal = MemoryJournal()
    engine = lineage_engine(plan(generations=3), journal, close_steps=STEPS)
    await engine.run_alone(0)

    with pytest.raises(SettingsError, match="generation = 2: starts from what generation 1 prom"):
        await engine.run_alone(2)
