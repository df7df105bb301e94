"""`command=track`: whoever asks for nothing else is told whether it was done."""

from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.assembly import execute
from openeta_exp.composition import compose_settings
from openeta_exp.errors import StoreError
from openeta_exp.settings.experiment import ExperimentSettings
from tests.batches import manifest, spec, story, won


def track(root: Path) -> ExperimentSettings:
    # Nothing listens on port 9, and nothing has to: MLflow is given no time to be imported.
    return compose_settings(
        [
            "command=track",
            "experiment_id=exp",
            f"output_root={root}",
            "tracking.uri=http://127.0.0.1:9",
            "tracking.drain_timeout_s=0.01",
        ]
    )


def test_tracking_again_what_cannot_be_shown_is_no_success(tmp_path: Path) -> None:
    journal = SqliteJournal(ExperimentLayout.below(tmp_path, "exp").journal)
    for event in story(manifest(1), [won(spec(0))]):
        journal.append(event)
    journal.close()

    with pytest.raises(StoreError, match="experiment_id = exp: is not shown in full"):
        execute(track(tmp_path))


def test_tracking_again_an_experiment_that_never_began_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SqliteJournal(ExperimentLayout.below(tmp_path, "exp").journal).close()

    assert execute(track(tmp_path)) == 0

    assert "journal.sqlite: holds nothing to show yet" in capsys.readouterr().err
