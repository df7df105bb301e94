"""What a command that could not do its work prints where a program reads (`openeta.failure.v1`)."""

from __future__ import annotations

import json

from openeta_exp.errors import InfrastructureError, OpenEtaError, SpendingCapError, UserError

SCHEMA_VERSION = "openeta.failure.v1"


def failure_json(error: OpenEtaError, *, command: str) -> str:
    """Exit code, reason, and one sentence for each problem."""
    problems = list(error.problems) if isinstance(error, UserError) else [str(error)]
    match error:
        case SpendingCapError():
            exit_code, reason = 3, "spending_cap"
        case InfrastructureError():
            exit_code, reason = 3, "infrastructure"
        case _:
            exit_code, reason = 2, "bad_input"
    return json.dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "ok": False,
            "exit_code": exit_code,
            "reason": reason,
            "code": error.code if isinstance(error, InfrastructureError) else None,
            "problems": problems,
        },
        indent=2,
    )
