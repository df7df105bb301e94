"""Keeps what MLflow shows of comparisons of policies up to date: a run beside those of the arms."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openeta_exp.adapters.tracking import comparison_view, lineage_view
from openeta_exp.adapters.tracking.run_view import HIGH_WATER_TAG
from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import (
    BatchEnded,
    BatchStarted,
    ComparisonEnded,
    ComparisonPlanned,
    Event,
)
from openeta_exp.domain.policy_comparison import POLICIES

if TYPE_CHECKING:
    from openeta_exp.adapters.tracking.mlflow_runs import MlflowRuns

RunOf = Callable[[str], str | None]
"""The run of a batch, by the batch's id."""


@dataclass(slots=True)
class _Known:
    """A comparison, and up to which fact MLflow has it."""

    planned: ComparisonPlanned
    first_planned_s: float
    ended: ComparisonEnded | None = None
    """Without its pairs, which are many and are only drawn."""
    pairs: str = ""
    """The table of them, as JSON."""
    interrupted_s: float | None = None
    seq: int = 0
    shown: int = -1
    """-1 as long as it is not known what MLflow has."""
    run_id: str = ""


class PolicyProjection:
    """Facts in, runs out. Showing a fact again changes nothing."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._labels: dict[str, str] = {}
        self._latest = ""

    def add(self, seq: int, event: Event) -> None:
        """Take one fact of any kind."""
        match event:
            case ComparisonPlanned(stage=stage, comparison_id=name) if stage == POLICIES:
                known = self._known.setdefault(name, _Known(event, event.at_s))
                known.planned, known.ended, known.interrupted_s = event, None, None
                known.seq, self._latest = seq, name
            case ComparisonEnded(stage=stage, comparison_id=name) if stage == POLICIES:
                if name in self._known:
                    known = self._known[name]
                    known.ended, known.seq = event.model_copy(update={"pairs": ()}), seq
                    known.pairs = json.dumps(comparison_view.pair_table(event.pairs))
            case BatchStarted(batch_id=batch_id, arm=arm):
                self._labels[batch_id] = arm.label
            case BatchEnded(interrupted=True, batch_id=batch_id, at_s=at_s):
                for known in self._known.values():
                    if known.ended is None and batch_id in _arms(known.planned):
                        known.interrupted_s, known.seq = at_s, seq
            case _:
                pass

    @property
    def waiting(self) -> bool:
        return any(each.seq > each.shown for each in self._known.values())

    def show(self, runs: MlflowRuns, run_of: RunOf) -> None:
        """Everything that has changed; the arms have their runs by now."""
        for known in self._known.values():
            if known.shown < 0:
                known.run_id, tags = runs.find_or_create(
                    {
                        "openeta.comparison_id": known.planned.comparison_id,
                        # Two output folders may hold comparisons of the same name.
                        "openeta.first_planned_s": repr(known.first_planned_s),
                    },
                    name=self._name(known),
                    started_ms=int(known.first_planned_s * 1000),
                )
                known.shown = int(tags.get(HIGH_WATER_TAG, "0"))
            if known.seq > known.shown:
                self._show(known, runs, run_of)
                # Last: what was only half shown is shown again, and that changes nothing.
                runs.tag(known.run_id, {HIGH_WATER_TAG: str(known.seq)})
                known.shown = known.seq

    def place(self, runs: MlflowRuns) -> str | None:
        """Where the latest comparison is; None if there is none."""
        known = self._known.get(self._latest)
        return None if known is None or not known.run_id else runs.place(known.run_id)

    def _show(self, known: _Known, runs: MlflowRuns, run_of: RunOf) -> None:
        planned, ended = known.planned, known.ended
        tags = {
            "kind": "comparison",
            "experiment_id": planned.experiment_id,
            "stage": planned.stage,
            "schedule_digest": planned.schedule_digest,
            "mlflow.runName": self._name(known),
            "mlflow.note.content": self._description(known, runs, run_of),
            "mlflow.loggedArtifacts": json.dumps(
                [{"path": comparison_view.PAIR_TABLE, "type": "table"}]
            ),
        }
        if ended is not None and ended.verdict is not None:
            tags["decision"] = ended.verdict.decision.value
            tags["reasons"] = ", ".join(ended.verdict.codes)
        runs.open(known.run_id, params=comparison_view.planned_params(planned), tags=tags)
        if ended is not None:
            runs.plot(known.run_id, comparison_view.ended_points(ended))
            runs.attach(known.run_id, {comparison_view.PAIR_TABLE: known.pairs})
            runs.end(known.run_id, interrupted=False, at_ms=int(ended.at_s * 1000))
        elif known.interrupted_s is not None:
            runs.end(known.run_id, interrupted=True, at_ms=int(known.interrupted_s * 1000))

    def _name(self, known: _Known) -> str:
        """What was compared and what came of it; what matters first, because tables cut names."""
        baseline, candidate = (self._labels.get(each, "?") for each in _arms(known.planned))
        name = f"{candidate} against {baseline}"
        if known.ended is None or known.ended.verdict is None:
            return name
        verdict = known.ended.verdict
        return f"{name}: {verdict.decision} {100 * verdict.effect.difference:+.0f}"

    def _description(self, known: _Known, runs: MlflowRuns, run_of: RunOf) -> str:
        """Markdown for the top of the run's page."""
        verdict = None if known.ended is None else known.ended.verdict
        pairs = known.planned.scheduled_pairs
        said = f"up to {counted(pairs, 'pair')}" if verdict is None else verdict.sentence()
        lines = [f"**{said}**"]
        arms = {self._labels.get(each, each): run_of(each) for each in _arms(known.planned)}
        found = {label: run_id for label, run_id in arms.items() if run_id is not None}
        links = [
            f"[{label}](#{lineage_view.run_path(runs.experiment_id, run_id)})"
            for label, run_id in found.items()
        ]
        if len(found) == 2:
            path = lineage_view.compare_path(runs.experiment_id, list(found.values()))
            links.append(f"[both side by side](#{path})")
        if links:
            lines.append(" · ".join(links))
        if verdict is not None:
            lines.append("\n".join(f"- `{each.code}`: {each.message}" for each in verdict.reasons))
        return "\n\n".join(lines)


def _arms(planned: ComparisonPlanned) -> tuple[str, str]:
    return planned.baseline_batch_id, planned.candidate_batch_id
