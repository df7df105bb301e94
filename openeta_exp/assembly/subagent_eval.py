"""`command=subagent_eval`."""

from __future__ import annotations

from openeta_exp.settings.command import SubagentEvalSettings
from openeta_exp.settings.experiment import ExperimentSettings


def subagent_eval(settings: ExperimentSettings, asked: SubagentEvalSettings) -> int:
    """Put generated cases before every reviewer, author and guidance agent."""
    del settings, asked
    return 0
