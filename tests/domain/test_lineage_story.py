from __future__ import annotations

import pytest

from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.event import Event
from openeta_exp.domain.lineage_story import Lineages, LineageStory
from tests.generations import lineage, strategy, tree_of

pytestmark = pytest.mark.anyio


def told(events: list[Event]) -> LineageStory:
    lineages = Lineages()
    for event in events:
        lineages.add(event)
    (story,) = lineages.stories
    return story


async def test_a_lineage_is_told_with_what_was_compared_and_what_became_of_it() -> None:
    result, events = await lineage(16, 4)
    story = told(events)

    assert [each.result for each in story.generations.values()] == list(result.generations)
    assert story.tree.content_digest == result.last_digest
    assert [each.planned.stage for each in story.comparisons.values()] == [
        "canary",
        "held-out",
        "canary",
        "held-out",
        "confirmation",
    ]
    (promotion,) = story.promotions
    promoting = story.promoting(promotion.to_digest)
    assert promoting is not None
    assert promoting.sentence.startswith("PROMOTE superior")
    assert promoting.lane is ArtifactKind.GRASP_STRATEGY
    assert promoting.tested == tree_of(strategy(16, revision=2))


async def test_a_confirmation_compares_the_last_tree_with_the_first() -> None:
    _, events = await lineage(16, 4)
    confirmation = told(events).confirmation

    assert confirmation is not None
    assert confirmation.candidate is None
    assert confirmation.baseline == tree_of(strategy(6))
    assert confirmation.tested == tree_of(strategy(16, revision=2))


async def test_facts_that_are_told_twice_change_nothing() -> None:
    _, events = await lineage(10, 20)
    lineages = Lineages()
    for event in events:
        lineages.add(event)
    (story,) = lineages.stories
    promotions, tree = story.promotions, story.tree
    # What a restarted command announces again.
    for event in events:
        if event.kind in ("promoted", "comparison_planned"):
            lineages.add(event)

    assert story.promotions == promotions
    assert story.tree == tree


async def test_what_is_under_way_says_so() -> None:
    _, events = await lineage(16)
    last = next(at for at, event in enumerate(events) if event.kind == "comparison_ended")
    story = told(events[:last])

    (canary,) = story.comparisons.values()
    assert canary.sentence == "under way: up to 4 pairs"
    assert story.generations[0].result is None


async def test_facts_of_a_lineage_that_was_never_announced_are_passed_over() -> None:
    _, events = await lineage(16)
    lineages = Lineages()

    assert not any(lineages.add(event) for event in events if event.kind != "generation_started")
    assert lineages.stories == ()
