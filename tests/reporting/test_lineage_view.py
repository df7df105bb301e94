"""The closing table of a lineage."""

from __future__ import annotations

import io

import pytest

from openeta_exp.adapters.registry.memory_registry import MemoryRegistry
from openeta_exp.domain.event import Event, Published
from openeta_exp.domain.generation import ExperimentResult
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.lineage_view import lineage_view
from tests.generations import lineage, strategy
from tests.publications import publication

pytestmark = pytest.mark.anyio


def shown(result: ExperimentResult, *events: Event) -> str:
    out = io.StringIO()
    receipts = {each.comparison_id: each.receipt for each in events if isinstance(each, Published)}
    Console(out=out, err=out).show(lineage_view(result, receipts))
    return " ".join(out.getvalue().split())


async def test_tokens_that_no_journal_tells_of_are_named_apart() -> None:
    result, _ = await lineage(16)
    spent = result.model_copy(update={"tokens": 120_000, "tokens_cut_short": 20_000})

    assert "120,000 tokens in all (20,000 of them cut short), price not known" in shown(spent)


async def test_nothing_is_said_of_tokens_that_were_cut_short_where_none_were() -> None:
    result, _ = await lineage(16)

    assert "120,000 tokens in all, price" in shown(result.model_copy(update={"tokens": 120_000}))


async def test_one_generation_and_one_promotion_are_not_told_as_many() -> None:
    result, _ = await lineage(16)

    text = shown(result)

    assert "exp: 1 generation " in text
    assert ", 1 promotion " in text


async def test_a_promotion_says_whether_it_was_published() -> None:
    shared, refused = MemoryRegistry(), MemoryRegistry()
    taken = strategy(16, revision=2)
    refused.publish(
        publication(taken.model_copy(update={"text": taken.text.replace("Close", "Shut")})),
        at_s=1.0,
    )

    result, events = await lineage(16, registry=shared)
    assert "registry: grip.r2.16: is now the validated grip" in shown(result, *events)
    result, events = await lineage(16, registry=refused)
    assert "registry: grip.r2.16: not published: the name belongs to" in shown(result, *events)


async def test_minutes_are_of_this_run_and_tokens_of_the_whole_lineage() -> None:
    result, _ = await lineage(16)
    spent = result.model_copy(update={"tokens": 14_814_151, "wall_s": 72.0})

    assert "1.2 min in this run; 14,814,151 tokens in all, price not known" in shown(spent)
