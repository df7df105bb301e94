"""`command=inspect` and `command=track`: what a journal says, to a person and to a tracker."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.event import GenerationEnded, Published
from openeta_exp.domain.generation import GenerationResult
from openeta_exp.domain.publication import Receipt
from openeta_exp.errors import SettingsError
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.inspect_view import inspect as read_inspection
from openeta_exp.reporting.inspect_view import inspect_view
from openeta_exp.settings.command import InspectSettings
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.tracking import NoTrackingSettings
from openeta_exp.wire.batch_result import BatchResult, parse_batch_result


@contextmanager
def reading_journal(settings: ExperimentSettings) -> Iterator[tuple[SqliteJournal, Path]]:
    """The experiment's journal, which another process may be writing.

    Raises:
        SettingsError: There is none.
    """
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    journal = SqliteJournal(layout.journal, read_only=True)
    try:
        yield journal, layout.journal
    finally:
        journal.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLineage:
    """What an experiment's folder says of its generations.

    Attributes:
        generations: That have ended, by number.
        train: Their training results.
        receipts: What a shared registry answered, by the comparison that was won.
    """

    generations: Mapping[int, GenerationResult]
    train: Mapping[int, BatchResult]
    receipts: Mapping[str, Receipt]


def read_lineage(settings: ExperimentSettings) -> KnownLineage:
    """Raises: SettingsError: There is no such experiment."""
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    generations: dict[int, GenerationResult] = {}
    receipts: dict[str, Receipt] = {}
    with reading_journal(settings) as (journal, _):
        for _, event in journal.events():
            match event:
                case GenerationEnded(result=result):
                    generations[result.generation] = result
                case Published(comparison_id=comparison_id, receipt=receipt):
                    receipts[comparison_id] = receipt
                case _:
                    pass
    paths = {number: layout.generation(number).phase("train").result for number in generations}
    train = {
        number: parse_batch_result(path.read_bytes(), source=str(path))
        for number, path in paths.items()
        if path.is_file()
    }
    return KnownLineage(generations=generations, train=train, receipts=receipts)


def inspect(settings: ExperimentSettings, asked: InspectSettings) -> int:
    """Show what has been recorded so far."""
    console = Console()
    # A long journal is a million small objects that all stay: there is no garbage to look for.
    gc.disable()
    with reading_journal(settings) as (journal, path):
        found = read_inspection(journal, source=str(path))
    if asked.batch is not None and not any(each.is_called(asked.batch) for each in found.batches):
        known = ", ".join(each.short_id for each in found.batches) or "nothing"
        raise SettingsError(
            f"command.batch = {asked.batch}: is not in the journal, which has {known}"
        )
    if asked.format == "json":
        console.text(found.to_json() + "\n")
    else:
        console.show(inspect_view(found, batch_id=asked.batch))
    return 0


def track(settings: ExperimentSettings) -> int:
    """Project the journal to the tracking server again; what is shown already is left alone.

    Raises:
        SettingsError: There is no such experiment, or nowhere to track to.
        StoreError: Not everything could be shown.
    """
    if isinstance(settings.tracking, NoTrackingSettings):
        raise SettingsError("tracking = none: there is nowhere to track to; use tracking=mlflow")
    from openeta_exp.assembly.tracking import open_tracker

    console = Console()
    with reading_journal(settings) as (journal, path):
        if next(journal.events(), None) is None:
            console.note(f"{path}: holds nothing to show yet")
            return 0
        with open_tracker(settings, console, journal=journal, required=True):
            return 0
