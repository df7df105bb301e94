"""What every tracker promises, whatever it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openeta_exp.adapters.tracking.messages import MlflowTarget
from openeta_exp.adapters.tracking.mlflow_tracker import MlflowTracker
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.event import Event
from openeta_exp.ports.tracker import Tracker
from tests.batches import manifest, spec, story, won

FACTS = tuple(enumerate(story(manifest(2), [won(spec(0)), won(spec(1))]), start=1))


@pytest.fixture(params=["none", "mlflow", "mlflow with a dead server"])
def tracker(request: pytest.FixtureRequest, target: MlflowTarget, tmp_path: Path) -> Tracker:
    dead = MlflowTarget(uri="http://127.0.0.1:9", artifact_root=None, experiment_name="e")
    make: dict[str, Callable[[], Tracker]] = {
        "none": NullTracker,
        "mlflow": lambda: MlflowTracker(target, log=tmp_path / "log"),
        "mlflow with a dead server": lambda: MlflowTracker(dead, log=tmp_path / "log"),
    }
    return make[request.param]()


def test_facts_are_taken_without_waiting_and_closing_keeps_its_time(tracker: Tracker) -> None:
    for fact in FACTS:
        tracker.publish([fact])
    tracker.publish(FACTS)

    # Too short for MLflow to be imported: it is given up, and that is no error.
    assert tracker.close(timeout_s=0.01) is None
    assert tracker.close(timeout_s=60) is None


def test_a_tracker_that_was_told_nothing_closes_at_once(tracker: Tracker) -> None:
    def nothing() -> Iterator[tuple[int, Event]]:
        yield from ()

    tracker.publish(nothing())

    assert tracker.close(timeout_s=60) is None
