"""OpenETA's own command lines, `openeta-batch` and `openeta --command`.

Thin translations: every default and every message is that of `python -m openeta_exp`.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from typing import TYPE_CHECKING

from openeta_exp.errors import SettingsError
from openeta_exp.openeta_flags import (
    Asked,
    read_batch_line,
    read_command_line,
    read_subagent_line,
)

if TYPE_CHECKING:
    from openeta_exp.settings.experiment import ExperimentSettings


def openeta_batch() -> None:
    """Entry point of `openeta-batch`."""
    raise SystemExit(carry_out(read_batch_line(sys.argv[1:]), program="openeta-batch"))


def openeta() -> None:
    """Entry point of `openeta`."""
    raise SystemExit(carry_out(read_command_line(sys.argv[1:]), program="openeta"))


def openeta_subagent_eval() -> None:
    """Entry point of `openeta-subagent-eval`."""
    asked = read_subagent_line(sys.argv[1:])
    if asked.copy_to is None:
        raise SystemExit(carry_out(asked, program="openeta-subagent-eval"))
    from openeta_exp.adapters.store.atomic import write_atomically

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = carry_out(asked, program="openeta-subagent-eval")
    sys.stdout.write(printed.getvalue())
    if printed.getvalue():
        write_atomically(asked.copy_to, printed.getvalue().encode("utf-8"))
    raise SystemExit(code)


def carry_out(asked: Asked, *, program: str) -> int:
    """Compose, check, execute and report; return the exit code."""
    from openeta_exp.cli import EXIT_INFRASTRUCTURE, execute, guarded
    from openeta_exp.composition import compose_settings

    def action() -> int:
        if asked.problems:
            raise SettingsError([f"{program}: {problem}" for problem in asked.problems])
        settings = compose_settings(asked.overrides)
        if settings.command.kind not in ("run", "iterate"):
            return execute(settings)
        begin_s = time.time()
        # The report alone goes to stdout, for programs to read.
        with contextlib.redirect_stdout(sys.stderr):
            code = guarded(lambda: execute(settings))
        if settings.command.kind == "run":
            # What was finished before is reported as it was; a failure only if it wrote anything.
            _report(settings, asked, since_s=0.0 if code == 0 else begin_s)
        elif code in (0, EXIT_INFRASTRUCTURE):
            _report_lineage(settings, full=asked.report == "full")
        return code

    return guarded(action)


def _report(settings: ExperimentSettings, asked: Asked, *, since_s: float) -> None:
    from openeta_exp.adapters.store.atomic import write_atomically
    from openeta_exp.adapters.store.layout import ExperimentLayout
    from openeta_exp.assembly.run import GENERATION, phase_of
    from openeta_exp.reporting.console import Console
    from openeta_exp.wire.batch_result import parse_batch_result
    from openeta_exp.wire.command_report import run_report

    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    path = layout.generation(GENERATION).phase(phase_of(settings)).result
    if not path.is_file() or path.stat().st_mtime < since_s:
        return  # Nothing was run; the reason has been said.
    content = path.read_bytes()
    if asked.copy_to is not None:
        asked.copy_to.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(asked.copy_to, content)
    if asked.report == "result":
        Console().text(content.decode("utf-8"))
        return
    result = parse_batch_result(content, source=str(path))
    report = run_report(result, path=path, full=asked.report == "full")
    Console().text(json.dumps(report, indent=2) + "\n")


def _report_lineage(settings: ExperimentSettings, *, full: bool) -> None:
    from openeta_exp.assembly.history import read_lineage
    from openeta_exp.reporting.console import Console
    from openeta_exp.wire.iterate_report import iterate_report

    known = read_lineage(settings)
    wanted = range(settings.lineage.generations)
    report = iterate_report(
        [known.generations[number] for number in wanted if number in known.generations],
        experiment_id=settings.experiment_id,
        requested_rounds=settings.lineage.generations,
        train=known.train,
        receipts=known.receipts,
        full=full,
    )
    Console().text(json.dumps(report, indent=2) + "\n")
