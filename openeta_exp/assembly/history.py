"""`command=inspect` and `command=track`."""

from __future__ import annotations

from openeta_exp.settings.experiment import ExperimentSettings


def inspect(settings: ExperimentSettings) -> int:
    return 0


def track(settings: ExperimentSettings) -> int:
    return 0
