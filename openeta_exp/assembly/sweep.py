"""A multirun over generations: each job a process of its own, lineages compared at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from pydantic import ValidationError

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.assembly.ending import ENDS_WITH
from openeta_exp.assembly.money import prices
from openeta_exp.assembly.provenance import behaviour
from openeta_exp.assembly.splits import design, read_splits
from openeta_exp.assembly.world import baseline_tree
from openeta_exp.domain.counting import counted
from openeta_exp.domain.lineage import GenerationRecord, differences
from openeta_exp.domain.money import Tokens
from openeta_exp.engine.lineage import LineageHistory
from openeta_exp.engine.sweep import JobEnd, JobState, LineageEnd, run_lineages
from openeta_exp.engine.sweep_grouping import SweptJob, SweptLineage, group_by_lineage
from openeta_exp.errors import SettingsError, UserError
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.sweep_view import ComparedJob, ComparedLineage, sweep_view
from openeta_exp.settings.command import IterateSettings
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.wire.override_text import override_text

_FROM_OUTSIDE = 3
"""Exit code of the command line for what broke outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """One job of a sweep, understood.

    Attributes:
        choices: Field or group -> value, as on the command line.
        arguments: What the job's process is started with, before its experiment has its name.
    """

    settings: ExperimentSettings
    choices: Mapping[str, str]
    arguments: tuple[str, ...]
    label: str = ""
    """Stands before what the job says where several speak at once."""


def sweep(asked: Sequence[AskedJob]) -> int:
    """Run the jobs, show how the lineages compare, and return the exit code.

    Raises:
        SettingsError: There is no job, or two lineages cannot be told apart by a directory name.
    """
    if not asked:
        raise SettingsError(
            "command line: the sweep has no job: one of the swept fields has no value, as in "
            "range(0); give it one"
        )
    console = Console()
    lineages = [_named(lineage) for lineage in _grouped(asked)]
    at_once = min(len(lineages), *(each.settings.concurrency.lineages for each in asked))
    for lineage in lineages:
        console.note(f"lineage {lineage.experiment_id}: {counted(len(lineage.jobs), 'job')}")
    ends = anyio.run(
        partial(
            run_lineages,
            lineages,
            at_once=at_once,
            is_finished=is_finished,
            run_job=partial(_run_to_end, console=console, alone=at_once == 1),
        )
    )
    console.show(sweep_view([_compared(end) for end in ends]))
    return _exit_code(ends)


def _grouped(asked: Sequence[AskedJob]) -> tuple[SweptLineage[AskedJob], ...]:
    jobs = [
        SweptJob(
            choices={name: each.choices[name] for name in each.choices if name != "generation"},
            generation=each.settings.generation,
            experiment_id=each.settings.experiment_id,
            asked=each,
        )
        for each in asked
    ]
    try:
        return group_by_lineage(jobs)
    except ValueError as error:
        raise SettingsError(f"experiment_id: {error}") from error


def _named(lineage: SweptLineage[AskedJob]) -> SweptLineage[AskedJob]:
    """The jobs' settings under the name of their lineage."""
    name = lineage.experiment_id
    label = " ".join(lineage.axes.values()) or name
    jobs = tuple(
        replace(
            job,
            settings=job.settings.model_copy(update={"experiment_id": name}),
            arguments=(*job.arguments, f"experiment_id={override_text(name)}"),
            label=label,
        )
        for job in lineage.jobs
    )
    return replace(lineage, jobs=jobs)


def _exit_code(ends: Sequence[LineageEnd[AskedJob]]) -> int:
    """0, or what the first failed job ended with.

    A signal that kills a job, as the kernel does when memory runs out, comes from outside.
    """
    failed = next((end.failed for end in ends if end.failed is not None), None)
    if failed is None:
        return 0
    return _FROM_OUTSIDE if failed.exit_code < 0 else failed.exit_code


def is_finished(job: AskedJob) -> bool:
    """Whether the journal has the end of every generation, under these very settings.

    With other settings the job is run, and says itself what has changed.
    """
    settings = job.settings
    if not isinstance(settings.command, IterateSettings):
        return False
    history, _ = _recorded(settings)
    return _has_ended(settings, history) and all(
        _is_unchanged(settings, each) for each in _wanted(settings)
    )


def _wanted(settings: ExperimentSettings) -> range:
    if settings.generation is None:
        return range(settings.lineage.generations)
    return range(settings.generation, settings.generation + 1)


def _has_ended(settings: ExperimentSettings, history: LineageHistory) -> bool:
    wanted = _wanted(settings)
    if not all(each in history.generations for each in wanted):
        return False
    ends_lineage = wanted[-1] == settings.lineage.generations - 1
    return not (
        ends_lineage and settings.lineage.confirmation_pairs and history.awaits_confirmation
    )


def _is_unchanged(settings: ExperimentSettings, generation: int) -> bool:
    path = _layout(settings).generation(generation).record
    try:
        before = GenerationRecord.from_json(path.read_text(encoding="utf-8"))
        splits = read_splits(settings)
    except (OSError, ValidationError, UserError):
        return False
    # Later generations start from what the journal says; the first from what the settings name.
    baseline = before.baseline_digest
    if generation == 0:
        baseline = baseline_tree(settings).content_digest
    now = before.model_copy(
        update={
            "behaviour": behaviour(settings),
            "baseline_digest": baseline,
            "design": design(settings, splits),
        }
    )
    return not differences(before, now)


def _layout(settings: ExperimentSettings) -> ExperimentLayout:
    return ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)


def _recorded(settings: ExperimentSettings) -> tuple[LineageHistory, Tokens]:
    """What the lineage's journal says, and what its model calls were charged with."""
    path = _layout(settings).journal
    if not path.is_file():
        return LineageHistory(()), Tokens()
    journal = SqliteJournal(path, read_only=True)
    try:
        history = LineageHistory(event for _, event in journal.events())
        spent = (row.tokens for row in journal.spending.spent() if row.settled)
        return history, sum(spent, Tokens())
    finally:
        journal.close()


def _compared(end: LineageEnd[AskedJob]) -> ComparedLineage:
    settings = end.lineage.jobs[0].settings
    history, spent = _recorded(settings)
    return ComparedLineage(
        experiment_id=end.lineage.experiment_id,
        jobs=tuple(_compared_job(job) for job in end.jobs),
        generations=tuple(history.generations[each] for each in sorted(history.generations)),
        gain=history.confirmation,
        tokens=spent.total,
        price_usd=prices(settings).of(spent),
    )


def _compared_job(end: JobEnd[AskedJob]) -> ComparedJob:
    generation = end.job.settings.generation
    what = "all" if generation is None else str(generation)
    how = end.state.value
    if end.state is JobState.FAILED:
        how += f" (signal {-end.exit_code})" if end.exit_code < 0 else f" ({end.exit_code})"
    return ComparedJob(generation=what, ending=how)


async def _run_to_end(job: AskedJob, *, console: Console, alone: bool) -> int | None:
    """The job's exit code; None if it did well and a cap of `money` ended it."""
    exit_code = await _run_job(job, console=console, alone=alone)
    if exit_code == 0 and isinstance(job.settings.command, IterateSettings):
        history, _ = _recorded(job.settings)
        return 0 if _has_ended(job.settings, history) else None
    return exit_code


async def _run_job(job: AskedJob, *, console: Console, alone: bool) -> int:
    """Run a job in a process of its own, and end it with this one.

    In a session of its own, so that Ctrl-C at the terminal reaches only this process.

    Args:
        alone: No other job runs at the same time, so it may use the terminal.
    """
    ends, holds = os.pipe()
    try:
        process = await anyio.open_process(
            [sys.executable, "-m", "openeta_exp", *job.arguments],
            stdin=None if alone else subprocess.DEVNULL,
            # The only thing this sweep puts on standard output is its table.
            stdout=sys.stderr if alone else subprocess.PIPE,
            stderr=None if alone else subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[ends],
            env={**os.environ, ENDS_WITH: str(ends)},
        )
    except BaseException:
        os.close(holds)
        raise
    finally:
        os.close(ends)
    try:
        await _said(process, console, label=job.label)
        return await process.wait()
    finally:
        os.close(holds)
        with anyio.CancelScope(shield=True):
            await process.wait()


async def _said(process: Process, console: Console, *, label: str) -> None:
    """Repeat what a job says, line by line, under its lineage's name."""
    if process.stdout is None:
        return
    rest = ""
    async for text in TextReceiveStream(process.stdout, errors="replace"):
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            console.note(f"[{label}] {line.rstrip()}")
    if rest:
        console.note(f"[{label}] {rest}")
