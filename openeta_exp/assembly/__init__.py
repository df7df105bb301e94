"""Composition root: which class stands behind which setting, and which use case a command is.

world     settings -> Simulator, Perception, Provider, Planner
run       command=run
checks    command=validate, capacity, preflight
history   command=inspect, track
waiting   command=pending, approve, deny
resume    command=resume
power     command=power
sweep     a multirun over generations
subagent_eval  command=subagent_eval
catalog_check    command=check
catalog_compare  command=compare
publication  command=rollback
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from openeta_exp.settings.command import (
        ApproveSettings,
        CapacitySettings,
        CheckSettings,
        CompareSettings,
        DenySettings,
        PendingSettings,
        PreflightSettings,
        ResumeSettings,
        ValidateSettings,
    )
    from openeta_exp.settings.experiment import ExperimentSettings


def _answer(
    settings: ExperimentSettings,
    asked: PendingSettings | ApproveSettings | DenySettings | ResumeSettings,
) -> int:
    """What a person is asked, and says."""
    from openeta_exp.settings.command import PendingSettings, ResumeSettings

    match asked:
        case ResumeSettings():
            from openeta_exp.assembly.resume import resume_paused

            return resume_paused(settings, asked)
        case PendingSettings():
            from openeta_exp.assembly.waiting import pending

            return pending(settings, asked)
        case _:
            from openeta_exp.assembly.waiting import decide

            return decide(settings, asked)


def _try(
    settings: ExperimentSettings, asked: ValidateSettings | CapacitySettings | PreflightSettings
) -> int:
    """What can be found out before a run."""
    from openeta_exp.assembly.checks import capacity, preflight, validate
    from openeta_exp.settings.command import PreflightSettings, ValidateSettings

    match asked:
        case ValidateSettings():
            return validate(settings)
        case PreflightSettings():
            return preflight(settings, asked)
        case _:
            return capacity(settings)


def _of_policies(settings: ExperimentSettings, asked: CheckSettings | CompareSettings) -> int:
    """What is asked about policies on a catalog; a program is told of failures too."""
    from openeta_exp.assembly.catalog_check import check
    from openeta_exp.assembly.catalog_compare import compare
    from openeta_exp.assembly.catalog_world import telling_failures
    from openeta_exp.settings.command import CheckSettings

    with telling_failures(asked.kind, aloud=asked.format == "json"):
        if isinstance(asked, CheckSettings):
            return check(settings, asked)
        return compare(settings, asked)


def execute(settings: ExperimentSettings) -> int:
    """Carry out one command and return its exit code.

    Raises:
        UserError: The input cannot be used.
        InfrastructureError: Something outside broke that no single episode can be blamed for.
    """
    from openeta_exp.settings.command import (
        ApproveSettings,
        CapacitySettings,
        CheckSettings,
        CompareSettings,
        DenySettings,
        InspectSettings,
        IterateSettings,
        PendingSettings,
        PowerSettings,
        PreflightSettings,
        ResumeSettings,
        RollbackSettings,
        RunSettings,
        SubagentEvalSettings,
        TrackSettings,
        ValidateSettings,
    )

    match settings.command:
        case RunSettings():
            from openeta_exp.assembly.run import run

            return run(settings)
        case IterateSettings():
            from openeta_exp.assembly.iterate import iterate

            return iterate(settings)
        case ValidateSettings() | CapacitySettings() | PreflightSettings() as asked:
            return _try(settings, asked)
        case InspectSettings() as asked_of:
            from openeta_exp.assembly.history import inspect

            return inspect(settings, asked_of)
        case TrackSettings():
            from openeta_exp.assembly.history import track

            return track(settings)
        case PendingSettings() | ApproveSettings() | DenySettings() | ResumeSettings() as answered:
            return _answer(settings, answered)
        case SubagentEvalSettings() as examined:
            from openeta_exp.assembly.subagent_eval import subagent_eval

            return subagent_eval(settings, examined)
        case PowerSettings() as planned:
            from openeta_exp.assembly.power import power

            return power(settings, planned)
        case CheckSettings() | CompareSettings() as of_policies:
            return _of_policies(settings, of_policies)
        case RollbackSettings() as asked_for:
            from openeta_exp.assembly.publication import rollback

            return rollback(settings, asked_for)
        case _:
            assert_never(settings.command)
