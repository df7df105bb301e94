"""Comparisons of policies against a real MLflow store."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.tracking.messages import MlflowTarget, Shown
from openeta_exp.adapters.tracking.mlflow_runs import MlflowRuns
from openeta_exp.adapters.tracking.projector import Projector
from openeta_exp.domain.event import Event
from tests.adapters.tracking.mlflow_page import Page
from tests.engine.test_policy_compare import compared, plan, x_of


async def facts() -> list[Event]:
    """A policy that is better and one that is worse than the first."""
    of = plan(
        {
            "first": lambda spec: x_of(spec) % 2 == 0,
            "good": lambda spec: True,
            "worse": lambda spec: False,
        }
    )
    _, journal = await compared(of, MemoryJournal())
    return [event for _, event in journal.events()]


def show(target: MlflowTarget, events: Sequence[Event]) -> Shown | None:
    """A projector that is started anew, as with each run of the program."""
    projector = Projector(lambda: MlflowRuns(target))
    for seq, event in enumerate(events, start=1):
        projector.add(seq, event)
    return projector.flush()


def test_every_policy_against_the_first_is_a_run_with_its_verdict(target: MlflowTarget) -> None:
    events = anyio.run(facts)

    show(target, events[: len(events) // 2])
    shown = show(target, events)
    show(target, events)

    runs = {run.info.run_name: run for run in Page(target).runs()}
    assert {name.rpartition(" ")[0] for name in runs if "against" in name} == {
        "good against first: promote",
        "worse against first: reject",
    }
    (good,) = (run for name, run in runs.items() if name.startswith("good against"))
    assert good.info.status == "FINISHED"
    assert good.data.tags["reasons"] == "superior"
    assert good.data.metrics["effect/fixed"] > good.data.metrics["effect/regressed"]
    assert "[both side by side]" in good.data.tags["mlflow.note.content"]
    assert len(runs) == 5, "three policies, two comparisons"
    assert shown is not None
