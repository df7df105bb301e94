"""Keeps what MLflow shows of lineages up to date: their runs, their comparisons, the library."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openeta_exp.adapters.tracking import comparison_view, lineage_view
from openeta_exp.adapters.tracking.run_view import HIGH_WATER_TAG, run_params
from openeta_exp.adapters.tracking.version_view import evidence, origin_of, predecessor_of
from openeta_exp.domain.artifact import Artifact
from openeta_exp.domain.event import (
    BatchEnded,
    BatchStarted,
    ComparisonEnded,
    ComparisonPlanned,
    Event,
    Promoted,
    Published,
)
from openeta_exp.domain.history import BatchHistory
from openeta_exp.domain.lineage_story import Comparison, Lineages, LineageStory
from openeta_exp.domain.token_tally import TokenTally

if TYPE_CHECKING:
    from openeta_exp.adapters.tracking.library import Version
    from openeta_exp.adapters.tracking.mlflow_runs import MlflowRuns

Render = Callable[[Comparison], str]
"""Draws a comparison as a page."""
RunOf = Callable[[str], str | None]
"""The run of a batch, by the batch's id."""

PARENT_TAG = "mlflow.parentRunId"
_PROMPTS_TAG = "mlflow.linkedPrompts"
_TRAIN = "train"


@dataclass(slots=True)
class _Lineage:
    """A lineage, and up to which fact MLflow has it."""

    story: LineageStory | None = None
    """None as long as there are only batches."""
    started: BatchStarted | None = None
    """The latest batch, for the configuration."""
    train: dict[int, str] = field(default_factory=dict)
    """Batch by generation."""
    comparison_runs: dict[str, str] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    """The latest fact about each comparison."""
    tokens: TokenTally = field(default_factory=TokenTally)
    interrupted: bool = False
    at_s: float = 0.0
    seq: int = 0
    shown: int = -1
    """-1 as long as it is not known what MLflow has."""
    run_id: str = ""


class LineageProjection:
    """Facts in, a run for each lineage and comparison out, with the arms of both below it.

    A lineage is one parent, and everything else stands directly below: MLflow folds deeper
    levels away. Nothing is counted twice by showing a fact again, because versions are found by
    content, runs by tag, and aliases are where the facts add up to.
    """

    def __init__(self, render: Render | None = None) -> None:
        self._render = render
        self._lineages = Lineages()
        self._by_id: dict[str, _Lineage] = {}
        self._latest: _Lineage | None = None
        self._arms: set[str] = set()

    def add(self, seq: int, event: Event, batch: BatchHistory | None) -> None:
        """Take one fact, with the batch it belongs to if it is one of a batch."""
        story = self._lineages.add(event)
        if story is not None:
            lineage = self._by_id.setdefault(story.experiment_id, _Lineage())
            lineage.story = story
            lineage.seq = seq
            self._latest = lineage
        elif batch is not None:
            lineage = self._by_id.setdefault(batch.started.experiment_id, _Lineage())
        else:
            return
        if isinstance(event, ComparisonPlanned):
            self._arms |= {event.baseline_batch_id, event.candidate_batch_id}
        _count(lineage, seq, event)

    def is_arm(self, batch_id: str) -> bool:
        """Whether a batch is one side of a comparison, which ends when that is decided."""
        return batch_id in self._arms

    @property
    def waiting(self) -> bool:
        return any(each.seq > each.shown for each in self._told())

    def open(self, runs: MlflowRuns) -> None:
        """Make the parents, before the runs that are to stand below them."""
        for lineage in self._told():
            story = _story(lineage)
            if lineage.shown < 0:
                lineage.run_id, tags = runs.find_or_create(
                    lineage_view.identity_tags(story),
                    name=lineage_view.run_name(story),
                    started_ms=int(story.first_started_s * 1000),
                )
                lineage.shown = int(tags.get(HIGH_WATER_TAG, "0"))
            if lineage.seq > lineage.shown:
                params = {} if lineage.started is None else run_params(lineage.started)
                runs.open(lineage.run_id, params=params, tags=lineage_view.run_tags(story))
                for artifact in story.first.artifacts:
                    self._version(lineage, artifact, runs)

    def arm_params(self, started: BatchStarted, runs: MlflowRuns) -> dict[str, str]:
        """What tells the arms of a lineage apart: the versions of what they start from."""
        params = {
            "generation": str(started.generation),
            "phase": started.phase,
            "arm": started.arm.label,
        }
        lineage = self._by_id.get(started.experiment_id)
        if lineage is None or lineage.story is None:
            return params
        tree = lineage.story.trees.get(started.arm.tree_digest)
        for artifact in () if tree is None else tree.artifacts:
            version = self._version(lineage, artifact, runs)
            name = version.entry.removeprefix(f"{started.experiment_id}.")
            family = name.partition(".")[2]
            # Plots cut values: what all revisions have in common stands in the name already.
            revision = artifact.name.removeprefix(family).lstrip(".-")
            params[name] = f"v{version.number} {revision}".rstrip()
        return params

    def arm_tags(self, started: BatchStarted) -> dict[str, str]:
        """What puts an arm below its lineage."""
        lineage = self._by_id.get(started.experiment_id)
        if lineage is None or not lineage.run_id:
            return {}
        return {PARENT_TAG: lineage.run_id}

    def show(self, runs: MlflowRuns, run_of: RunOf) -> None:
        """Everything that can only be shown once the arms have their runs."""
        for lineage in self._told():
            if lineage.seq <= lineage.shown:
                continue
            story = _story(lineage)
            for comparison in story.comparisons.values():
                if lineage.touched.get(comparison.comparison_id, 0) > lineage.shown:
                    self._show_comparison(lineage, comparison, runs, run_of)
            self._move_aliases(lineage, runs)
            self._close(lineage, runs, run_of)
            # Last: what was only half shown is shown again, and that changes nothing.
            runs.tag(lineage.run_id, {HIGH_WATER_TAG: str(lineage.seq)})
            lineage.shown = lineage.seq

    def place(self, runs: MlflowRuns) -> str | None:
        """Where the latest lineage is; None if there is none."""
        return None if self._latest is None else runs.place(self._latest.run_id)

    def compare(self, runs: MlflowRuns, run_of: RunOf) -> str | None:
        """The page with the generations of the latest lineage side by side, if there are two."""
        if self._latest is None:
            return None
        path = _generations_path(self._latest, runs, run_of)
        return None if path is None else runs.page(path)

    def _told(self) -> list[_Lineage]:
        return [each for each in self._by_id.values() if each.story is not None]

    def _show_comparison(
        self, lineage: _Lineage, comparison: Comparison, runs: MlflowRuns, run_of: RunOf
    ) -> None:
        run_id = self._comparison_run(lineage, comparison, runs)
        version = None
        if comparison.candidate is not None:
            version = self._version(lineage, comparison.candidate.artifact, runs)
        arms = {
            "baseline": run_of(comparison.planned.baseline_batch_id),
            "candidate": run_of(comparison.planned.candidate_batch_id),
        }
        links = _comparison_links(lineage, arms, version, runs)
        tags = comparison_view.run_tags(comparison) | {
            PARENT_TAG: lineage.run_id,
            "mlflow.note.content": comparison_view.description(comparison, links),
            "mlflow.loggedArtifacts": json.dumps(
                [{"path": comparison_view.PAIR_TABLE, "type": "table"}]
            ),
        }
        tags |= {f"{side}_run": arm for side, arm in arms.items() if arm is not None}
        if version is not None and not comparison_view.is_decisive(comparison):
            # A decisive one is linked from the version's side, which shows on both pages.
            tags[_PROMPTS_TAG] = json.dumps(
                [{"name": version.entry, "version": str(version.number)}]
            )
        runs.open(run_id, params=comparison_view.run_params(comparison), tags=tags)
        runs.plot(run_id, comparison_view.run_points(comparison))
        texts = comparison_view.run_texts(comparison)
        if self._render is not None:
            texts[comparison_view.REPORT] = self._render(comparison)
        runs.attach(run_id, texts)
        if comparison.ended is not None:
            runs.end(run_id, interrupted=False, at_ms=int(comparison.ended.at_s * 1000))
        elif lineage.interrupted:
            runs.end(run_id, interrupted=True, at_ms=int(lineage.at_s * 1000))
        if version is not None:
            runs.library.note(
                version,
                evidence(
                    comparison,
                    run_id,
                    page=runs.page(lineage_view.run_path(runs.experiment_id, run_id)),
                ),
            )
        promoted = arms["candidate"] if comparison.promotion is not None else None
        if promoted is not None and comparison.promotion is not None:
            runs.tag(promoted, {"promoted": comparison.promotion.name})

    def _comparison_run(self, lineage: _Lineage, comparison: Comparison, runs: MlflowRuns) -> str:
        known = lineage.comparison_runs.get(comparison.comparison_id)
        if known is None:
            known, _ = runs.find_or_create(
                comparison_view.identity_tags(comparison),
                name=comparison_view.run_name(comparison),
                started_ms=int(comparison.first_planned_s * 1000),
            )
            lineage.comparison_runs[comparison.comparison_id] = known
        return known

    def _version(self, lineage: _Lineage, artifact: Artifact, runs: MlflowRuns) -> Version:
        from openeta_exp.adapters.tracking.library import entry_name

        story = _story(lineage)
        entry = entry_name(story.experiment_id, artifact)
        message, diff = origin_of(story, artifact)
        return runs.library.keep(entry, artifact, message=message, diff=diff)

    def _move_aliases(self, lineage: _Lineage, runs: MlflowRuns) -> None:
        """`champion` is what is in use, `baseline` what it was last compared with and beat."""
        story = _story(lineage)
        for artifact in story.tree.artifacts:
            champion = self._version(lineage, artifact, runs)
            before = predecessor_of(story, artifact)
            baseline = champion if before is None else self._version(lineage, before, runs)
            runs.library.point("champion", champion)
            if baseline.entry == champion.entry:
                runs.library.point("baseline", baseline)

    def _close(self, lineage: _Lineage, runs: MlflowRuns, run_of: RunOf) -> None:
        story = _story(lineage)
        at_ms = int(lineage.at_s * 1000)
        runs.plot(
            lineage.run_id, lineage_view.run_points(story, tokens=lineage.tokens.total, at_ms=at_ms)
        )
        runs.attach(lineage.run_id, lineage_view.run_texts(story))
        links = []
        path = _generations_path(lineage, runs, run_of)
        if path is not None:
            links.append(f"[the generations side by side](#{path})")
        for comparison in story.comparisons.values():
            if comparison.promotion is not None:
                run = self._comparison_run(lineage, comparison, runs)
                evidence = lineage_view.run_path(runs.experiment_id, run)
                links.append(f"[why {comparison.promotion.name}](#{evidence})")
        runs.tag(
            lineage.run_id,
            lineage_view.run_tags(story)
            | {"mlflow.note.content": lineage_view.description(story, links=links)},
        )
        generations, confirms = lineage_view.asked_for(lineage.started)
        if lineage_view.is_over(story, generations=generations, confirms=confirms):
            runs.end(lineage.run_id, interrupted=False, at_ms=at_ms)
        elif lineage.interrupted:
            runs.end(lineage.run_id, interrupted=True, at_ms=at_ms)


def _count(lineage: _Lineage, seq: int, event: Event) -> None:
    """What a fact adds to its lineage besides the story."""
    match event:
        case BatchStarted(generation=generation, phase=phase, batch_id=batch_id):
            lineage.started, lineage.interrupted = event, False
            if phase == _TRAIN:
                lineage.train[generation] = batch_id
        case BatchEnded(interrupted=True, at_s=at_s):
            lineage.interrupted, lineage.at_s = True, at_s
            lineage.seq = seq if lineage.story is not None else lineage.seq
            lineage.touched |= {
                each: seq for each, known in _open_comparisons(lineage).items() if known
            }
        case ComparisonPlanned() | ComparisonEnded() | Published():
            lineage.touched[event.comparison_id] = seq
        case Promoted(promotion=promotion):
            lineage.touched[promotion.comparison_id] = seq
        case _:
            pass
    lineage.tokens.take(event)
    lineage.at_s = event.at_s


def _open_comparisons(lineage: _Lineage) -> Mapping[str, bool]:
    """Whether each comparison is under way."""
    if lineage.story is None:
        return {}
    return {key: each.ended is None for key, each in lineage.story.comparisons.items()}


def _story(lineage: _Lineage) -> LineageStory:
    assert lineage.story is not None, "only lineages with a story are shown"
    return lineage.story


def _generations_path(lineage: _Lineage, runs: MlflowRuns, run_of: RunOf) -> str | None:
    found = [run_of(lineage.train[number]) for number in sorted(lineage.train)]
    known = [each for each in found if each is not None]
    return lineage_view.compare_path(runs.experiment_id, known) if len(known) > 1 else None


def _comparison_links(
    lineage: _Lineage, arms: Mapping[str, str | None], version: Version | None, runs: MlflowRuns
) -> list[str]:
    known = {side: arm for side, arm in arms.items() if arm is not None}
    links = [
        f"[{side}](#{lineage_view.run_path(runs.experiment_id, arm)})"
        for side, arm in known.items()
    ]
    if len(known) == 2:
        path = lineage_view.compare_path(runs.experiment_id, list(known.values()))
        links.append(f"[both side by side](#{path})")
    if version is not None:
        links.append(f"[the candidate's text](#/prompts/{version.entry})")
    links.append(f"[lineage](#{lineage_view.run_path(runs.experiment_id, lineage.run_id)})")
    return links
