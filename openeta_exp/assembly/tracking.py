"""Where an experiment is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.tracking.messages import MlflowTarget
from openeta_exp.adapters.tracking.mlflow_tracker import MlflowTracker
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.ports.store import Journal
from openeta_exp.ports.tracker import Tracker
from openeta_exp.reporting.console import Console
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.tracking import MlflowTrackingSettings, NoTrackingSettings

UI_COMMAND = "scripts/ui"


@contextmanager
def open_tracker(
    settings: ExperimentSettings, console: Console, *, journal: Journal
) -> Iterator[Tracker]:
    """The tracker, told first what the journal holds already; drained and named at the end."""
    tracker, timeout_s = _tracker(settings)
    tracker.publish(journal.events())
    try:
        yield tracker
    finally:
        place = tracker.close(timeout_s=timeout_s)
    if place is not None:
        console.note(f"tracked     {place}   (look at it with {UI_COMMAND})")


def _tracker(settings: ExperimentSettings) -> tuple[Tracker, float]:
    match settings.tracking:
        case NoTrackingSettings():
            return NullTracker(), 0.0
        case MlflowTrackingSettings() as given:
            root = settings.output_root.absolute()
            layout = ExperimentLayout.below(root, settings.experiment_id)
            name = given.experiment_name or settings.experiment_id
            target = (
                MlflowTarget.below(root, experiment_name=name)
                if given.uri is None
                else MlflowTarget(uri=str(given.uri), artifact_root=None, experiment_name=name)
            )
            log = layout.folder / "tracking.log"
            return MlflowTracker(target, log=log), given.drain_timeout_s
        case _:
            assert_never(settings.tracking)
