"""What a program is told when a command could not do its work."""

from __future__ import annotations

import json

import pytest

from openeta_exp.errors import OpenEtaError, ProviderError, SettingsError, SpendingCapError
from openeta_exp.wire.failure_report import failure_json


@pytest.mark.parametrize(
    ("error", "exit_code", "reason"),
    [
        (SettingsError(["a = 1: is not right; use 2"]), 2, "bad_input"),
        (ProviderError("nobody answers"), 3, "infrastructure"),
        (SpendingCapError("money.experiment_tokens = 7: stopped"), 3, "spending_cap"),
    ],
)
def test_the_reason_goes_with_the_exit_code(
    error: OpenEtaError, exit_code: int, reason: str
) -> None:
    said = json.loads(failure_json(error, command="compare"))

    assert (said["exit_code"], said["reason"]) == (exit_code, reason)
    assert said["problems"] == [str(error)]
