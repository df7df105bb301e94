"""What a journal has measured."""

from __future__ import annotations

from pathlib import Path

from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.assembly.forecast import measured_in
from tests.batches import broke, ended, manifest, spec, story, won
from tests.pauses import paused, went_on


def test_an_episode_that_was_answered_is_measured_as_one_and_a_broken_attempt_as_another(
    tmp_path: Path,
) -> None:
    asked = paused()
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    for event in story(manifest(2), [asked.outcome, broke(spec(1)), won(spec(1), attempt=1)]):
        journal.append(event)
    journal.append(ended(went_on(won(asked.spec, attempt=1), tokens=1_700)))

    try:
        assert measured_in(journal).episodes == 3
    finally:
        journal.close()
