"""Lineages against a real MLflow store."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import pytest
from mlflow.entities import Run
from mlflow.entities.model_registry import PromptVersion
from mlflow.tracking import MlflowClient
from pydantic import TypeAdapter

from openeta_exp.adapters.tracking.messages import MlflowTarget, Shown
from openeta_exp.adapters.tracking.mlflow_runs import MLFLOW_ERRORS, MlflowRuns
from openeta_exp.adapters.tracking.projector import Projector
from openeta_exp.domain.event import Event
from openeta_exp.reporting.comparison_report import comparison_report
from tests.adapters.tracking.mlflow_page import Page
from tests.generations import lineage, strategy

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


@pytest.fixture(scope="module")
def facts() -> list[Event]:
    """One promotion, one rejection, a confirmation."""
    _, events = anyio.run(partial(lineage, 16, 4))
    return events


@pytest.fixture
def told(target: MlflowTarget, facts: list[Event]) -> list[Event]:
    """The same lineage under a name of the test's own, as all tests share one store."""
    return [_EVENT.validate_json(_renamed(each.to_json(), target)) for each in facts]


@dataclass(frozen=True)
class Whole:
    """The lineage, shown from its first to its last fact."""

    target: MlflowTarget
    events: list[Event]
    shown: Shown | None


@pytest.fixture(scope="module")
def whole(output_root: Path, facts: list[Event]) -> Whole:
    target = MlflowTarget.below(output_root, experiment_name="finished-lineage")
    events = [_EVENT.validate_json(_renamed(each.to_json(), target)) for each in facts]
    return Whole(target, events, show(target, events))


@pytest.fixture
def finished(whole: Whole) -> MlflowTarget:
    """Where it is, for those who only look."""
    return whole.target


def _renamed(text: str, target: MlflowTarget) -> str:
    return re.sub(r'"exp(?=["-])', f'"{target.experiment_name}', text)


def show(
    target: MlflowTarget, events: Sequence[Event], *, projector: Projector | None = None
) -> Shown | None:
    """A projector that is started anew, as with each run of the program."""
    shower = projector or Projector(lambda: MlflowRuns(target), render=comparison_report)
    for seq, event in enumerate(events, start=1):
        shower.add(seq, event)
    return shower.flush()


def by_kind(target: MlflowTarget, kind: str) -> list[Run]:
    return [run for run in Page(target).runs() if run.data.tags.get("kind") == kind]


def comparison(target: MlflowTarget, stage: str, generation: int) -> Run:
    (found,) = (
        run
        for run in by_kind(target, "comparison")
        if (run.data.tags["stage"], run.data.tags["generation"]) == (stage, str(generation))
    )
    return found


def artifact(target: MlflowTarget, run: Run, name: str) -> str:
    client = MlflowClient(tracking_uri=target.uri)
    return Path(client.download_artifacts(run.info.run_id, name)).read_text("utf-8")


def versions(target: MlflowTarget, entry: str) -> list[PromptVersion]:
    """Oldest first."""
    client = MlflowClient(tracking_uri=target.uri)
    found = list(client.search_prompt_versions(entry))
    return sorted(found, key=lambda version: int(version.version))


def aliased(target: MlflowTarget, entry: str, alias: str) -> int:
    client = MlflowClient(tracking_uri=target.uri)
    return int(client.get_prompt_version_by_alias(entry, alias).version)


def strategies(target: MlflowTarget) -> str:
    (parent,) = by_kind(target, "lineage")
    return f"{parent.data.tags['experiment_id']}.grasp_strategy.grip"


def test_everything_of_a_lineage_stands_directly_below_one_parent(finished: MlflowTarget) -> None:
    (parent,) = by_kind(finished, "lineage")
    children = [run for run in Page(finished).runs() if run.info.run_id != parent.info.run_id]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert len(by_kind(finished, "comparison")) == 5
    assert {run.info.status for run in [parent, *children]} == {"FINISHED"}
    assert parent.data.metrics["summary/success_rate"] == 5 / 6
    assert parent.data.metrics["lineage/promotions"] == 1
    assert parent.data.metrics["summary/tokens_total"] == sum(
        run.data.metrics.get("episodes/tokens_total", 0) for run in children
    )


def test_a_comparison_has_its_pairs_its_verdict_its_way_there_and_a_report(
    finished: MlflowTarget,
) -> None:
    run = comparison(finished, "held-out", 0)
    assert run.data.tags["decision"] == "promote"
    assert run.data.tags["promoted"] == "grip.r2.16"
    assert run.info.run_name.startswith("g0 held-out promote +44")
    assert run.data.metrics["effect/fixed"] == 7
    assert run.data.metrics["effect/low"] < run.data.metrics["effect/difference"]
    table = json.loads(artifact(finished, run, "pairs.json"))
    assert len(table["data"]) == run.data.metrics["effect/pairs"]
    assert "FIXED: only the candidate" in artifact(finished, run, "report.html")
    assert '+    "close_steps": 16,' in artifact(finished, run, "change.diff")
    whole = json.loads(artifact(finished, run, "comparison.json"))
    assert whole["ended"]["verdict"]["decision"] == "promote"
    client = MlflowClient(tracking_uri=finished.uri)
    looks = client.get_metric_history(run.info.run_id, "evidence/lead")
    assert [(look.step, look.value) for look in looks] == [(8, 4), (12, 5), (16, 7)]


def test_arms_count_what_they_ran_and_say_what_they_started_from(finished: MlflowTarget) -> None:
    client = MlflowClient(tracking_uri=finished.uri)
    run = comparison(finished, "held-out", 0)
    candidate = client.get_run(run.data.tags["candidate_run"])
    assert candidate.data.metrics["summary/episodes"] == run.data.metrics["effect/pairs"]
    assert candidate.data.metrics["summary/unfinished"] == 0
    assert candidate.data.params["grasp_strategy.grip"] == "v2 r2.16"
    assert candidate.data.tags["promoted"] == "grip.r2.16"
    baseline = client.get_run(run.data.tags["baseline_run"])
    assert baseline.data.params["grasp_strategy.grip"] == "v1 r1.6"


def test_strategies_are_versions_with_digest_diff_and_evidence(finished: MlflowTarget) -> None:
    first, promoted, rejected = versions(finished, strategies(finished))
    assert first.commit_message == "the lineage began with it"
    assert '+    "close_steps": 16,' in promoted.tags["diff"]
    assert promoted.tags["held-out"].startswith("PROMOTE superior")
    assert promoted.tags["mlflow.prompt.run_ids"] == comparison(finished, "held-out", 0).info.run_id
    assert rejected.tags["held-out"].startswith("REJECT")
    assert len({each.tags["content_digest"] for each in (first, promoted, rejected)}) == 3


def test_champion_and_baseline_move_on_promotion_alone(
    target: MlflowTarget, told: list[Event]
) -> None:
    upto = next(at for at, event in enumerate(told) if event.kind == "promoted")
    show(target, told[:upto])
    entry = strategies(target)
    assert (aliased(target, entry, "baseline"), aliased(target, entry, "champion")) == (1, 1)

    show(target, told)

    assert (aliased(target, entry, "baseline"), aliased(target, entry, "champion")) == (1, 2)


def test_showing_a_lineage_again_changes_nothing(whole: Whole) -> None:
    before = [run.to_dictionary() for run in Page(whole.target).runs()]
    kept = [dict(each.tags) for each in versions(whole.target, strategies(whole.target))]

    show(whole.target, whole.events)

    assert [run.to_dictionary() for run in Page(whole.target).runs()] == before
    assert [dict(each.tags) for each in versions(whole.target, strategies(whole.target))] == kept


def test_a_lineage_that_is_shown_bit_by_bit_ends_up_the_same(
    target: MlflowTarget, told: list[Event], finished: MlflowTarget
) -> None:
    for upto in (60, 170, len(told)):
        # Each time a new process, as if the one before had been killed.
        show(target, told[:upto])

    def seen(there: MlflowTarget) -> list[tuple[str, str, dict[str, float]]]:
        return sorted(
            (
                run.info.run_name.replace(there.experiment_name, ""),
                run.info.status,
                dict(run.data.metrics),
            )
            for run in Page(there).runs()
        )

    assert seen(target) == seen(finished)
    assert len(versions(target, strategies(target))) == 3


def test_a_lineage_that_was_half_shown_is_shown_whole_later(
    target: MlflowTarget, told: list[Event]
) -> None:
    class Stumbling(MlflowRuns):
        """Fails once, in the middle of a comparison."""

        def attach(self, run_id: str, texts: object) -> None:
            if isinstance(texts, dict) and "pairs.json" in texts and not stumbled:
                stumbled.append(run_id)
                raise OSError("connection reset")
            super().attach(run_id, texts)  # type: ignore[arg-type]

    stumbled: list[str] = []
    projector = Projector(lambda: Stumbling(target), render=comparison_report)
    with pytest.raises(MLFLOW_ERRORS):
        show(target, told, projector=projector)
    projector.flush()

    assert len(by_kind(target, "comparison")) == 5
    assert {run.info.status for run in Page(target).runs()} == {"FINISHED"}
    assert len(versions(target, strategies(target))) == 3


def test_an_interrupted_lineage_says_so_and_goes_on_in_the_same_run(
    target: MlflowTarget, told: list[Event]
) -> None:
    stop = next(
        at
        for at, event in enumerate(told)
        if event.kind == "batch_ended" and "held-out" in event.batch_id
    )
    cut = told[stop]
    assert cut.kind == "batch_ended"
    show(target, [*told[:stop], cut.model_copy(update={"interrupted": True})])
    (parent,) = by_kind(target, "lineage")
    assert parent.info.status == "KILLED"
    assert comparison(target, "held-out", 0).info.status == "KILLED"

    show(target, [*told[:stop], cut.model_copy(update={"interrupted": True}), *told[stop - 20 :]])

    (parent,) = by_kind(target, "lineage")
    assert parent.info.status == "FINISHED"
    assert comparison(target, "held-out", 0).info.status == "FINISHED"


def test_the_page_that_compares_the_generations_has_their_training_runs(whole: Whole) -> None:
    trained = [run for run in Page(whole.target).runs() if run.data.tags.get("phase") == "train"]
    (parent,) = by_kind(whole.target, "lineage")

    assert whole.shown is not None
    assert parent.info.run_id in whole.shown.place
    assert whole.shown.compare is not None
    assert whole.shown.compare.startswith("#/compare-runs?runs=%5B%22")
    assert len(trained) == 2
    for run in trained:
        assert run.info.run_id in whole.shown.compare
    assert whole.shown.compare in parent.data.tags["mlflow.note.content"]


def test_the_ledger_adds_up_what_every_test_has_cost(finished: MlflowTarget) -> None:
    (parent,) = by_kind(finished, "lineage")
    table = json.loads(artifact(finished, parent, "ledger.json"))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["decision"] for row in rows] == ["promote", "reject", "estimate"]
    assert rows[-1]["pairs_so_far"] == sum(row["pairs"] for row in rows)


def test_a_long_text_is_cut_rather_than_refused(target: MlflowTarget) -> None:
    long = strategy(16).model_copy(update={"text": "x" * 200_000})
    library = MlflowRuns(target).library

    version = library.keep(target.experiment_name, long, message="", diff="y" * 20_000)

    (kept,) = versions(target, target.experiment_name)
    assert int(kept.version) == version.number
    assert "[cut here: 200000 characters]" in kept.template
    assert library.keep(target.experiment_name, long, message="", diff="") == version
