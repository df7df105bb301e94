"""Where an experiment is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.tracking.messages import MlflowTarget
from openeta_exp.adapters.tracking.mlflow_tracker import MlflowTracker
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.subagent_eval import SubagentReport
from openeta_exp.errors import StoreError
from openeta_exp.ports.store import Journal
from openeta_exp.ports.tracker import Tracker
from openeta_exp.reporting.console import Console
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.tracking import MlflowTrackingSettings, NoTrackingSettings

UI_COMMAND = "scripts/ui"
UI_ADDRESS = "http://127.0.0.1:5000"
"""Where it serves, unless the port is taken."""
PROJECTOR = "openeta_exp.assembly.projector"


@contextmanager
def open_tracker(
    settings: ExperimentSettings, console: Console, *, journal: Journal, required: bool = False
) -> Iterator[Tracker]:
    """The tracker, told first what the journal holds already; drained and named at the end.

    Args:
        required: Whether it is the caller's whole purpose that everything is shown.

    Raises:
        StoreError: It was required, and not everything is shown.
    """
    tracker, timeout_s = _tracker(settings)
    tracker.publish(journal.events())
    try:
        yield tracker
    finally:
        place = tracker.close(timeout_s=timeout_s)
    if place is None:
        if required:
            raise StoreError(
                f"experiment_id = {settings.experiment_id}: is not shown in full; the same "
                "command tries again"
            )
        return
    console.note(f"tracked     {place}   (look at it with {UI_COMMAND})")
    compare = tracker.compare_link
    if compare is not None:
        page = compare if compare.startswith("http") else f"{UI_ADDRESS}/{compare}"
        console.note(f"compare     {page}")


def track_subagents(settings: ExperimentSettings, report: SubagentReport, console: Console) -> None:
    """Show an evaluation of sub-agents where the experiment's runs are shown."""
    if isinstance(settings.tracking, NoTrackingSettings):
        return
    from openeta_exp.adapters.tracking.subagent_run import show_report

    try:
        run_id = show_report(_target(settings, settings.tracking), report)
    except StoreError as error:
        console.note(str(error))
        return
    console.note(f"tracked     run {run_id}   (look at it with {UI_COMMAND})")


def _target(settings: ExperimentSettings, given: MlflowTrackingSettings) -> MlflowTarget:
    name = given.experiment_name or settings.experiment_id
    root = settings.output_root.absolute()
    if given.uri is None:
        return MlflowTarget.below(root, experiment_name=name)
    return MlflowTarget(uri=str(given.uri), artifact_root=None, experiment_name=name)


def _tracker(settings: ExperimentSettings) -> tuple[Tracker, float]:
    match settings.tracking:
        case NoTrackingSettings():
            return NullTracker(), 0.0
        case MlflowTrackingSettings() as given:
            root = settings.output_root.absolute()
            layout = ExperimentLayout.below(root, settings.experiment_id)
            log = layout.folder / "tracking.log"
            return MlflowTracker(
                _target(settings, given), log=log, program=PROJECTOR
            ), given.drain_timeout_s
        case _:
            assert_never(settings.tracking)
