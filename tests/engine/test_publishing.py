"""When a lineage publishes what it promotes."""

from __future__ import annotations

import pytest

from openeta_exp.adapters.registry.memory_registry import MemoryRegistry
from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.domain.event import Event, Promoted, Published
from openeta_exp.domain.gate import Tier
from openeta_exp.domain.publication import Standing
from tests.generations import lineage, lineage_engine, plan, strategy, tree_of
from tests.publications import publication

pytestmark = pytest.mark.anyio


def published(events: list[Event]) -> list[Standing]:
    return [event.receipt.standing for event in events if isinstance(event, Published)]


async def test_only_what_the_last_gate_promotes_is_published() -> None:
    registry = MemoryRegistry()
    _, events = await lineage(16, 4, registry=registry)

    assert published(events) == [Standing.VALIDATED]
    (shared,) = registry.validated().artifacts
    assert shared == strategy(16, revision=2)
    kinds = [type(event) for event in events]
    assert kinds.index(Published) == kinds.index(Promoted) + 1


async def test_the_local_tier_publishes_nothing() -> None:
    registry = MemoryRegistry()
    _, events = await lineage(16, of=plan(generations=1, tier=Tier.LOCAL), registry=registry)

    assert any(isinstance(event, Promoted) for event in events)
    assert published(events) == []
    assert registry.history() == ()


async def test_each_promotion_of_a_lineage_takes_the_place_of_the_one_before() -> None:
    registry = MemoryRegistry()
    of = plan(generations=2, tree=tree_of(strategy(2)))
    _, events = await lineage(10, 20, of=of, registry=registry)

    assert published(events) == [Standing.VALIDATED, Standing.VALIDATED]
    (shared,) = registry.validated().artifacts
    assert shared == strategy(20, revision=3)


async def test_a_finished_lineage_run_again_promotes_and_publishes_nothing_twice() -> None:
    registry, journal = MemoryRegistry(), MemoryJournal()
    for _ in range(2):
        await lineage_engine(
            plan(generations=1), journal, close_steps=[16], registry=registry
        ).run()
    events = [event for _, event in journal.events()]

    assert sum(isinstance(event, Promoted) for event in events) == 1
    assert published(events) == [Standing.VALIDATED]
    assert len(registry.history()) == 1


async def test_a_promotion_that_was_killed_before_its_publication_is_published_by_a_rerun() -> None:
    registry, journal = MemoryRegistry(), MemoryJournal()
    # Without a registry the journal ends up as if killed between promoting and publishing.
    await lineage_engine(plan(generations=1), journal, close_steps=[16]).run()
    await lineage_engine(plan(generations=1), journal, close_steps=[16], registry=registry).run()

    assert published([event for _, event in journal.events()]) == [Standing.VALIDATED]


async def test_a_name_that_is_taken_costs_the_lineage_nothing_but_the_publication() -> None:
    registry = MemoryRegistry()
    promoted = strategy(16, revision=2)
    taken = promoted.model_copy(update={"text": promoted.text.replace("Close", "Shut")})
    registry.publish(publication(taken), at_s=1.0)
    result, events = await lineage(16, registry=registry)

    assert published(events) == [Standing.CONFLICT]
    assert result.generations[0].promotions
    assert registry.validated().artifacts == (taken,)
