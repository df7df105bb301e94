"""What `command=check format=json` prints (`openeta.catalog_check.v1`)."""

from __future__ import annotations

import json

from openeta_exp.domain.finding import CheckReport, CheckVerdict

SCHEMA_VERSION = "openeta.catalog_check.v1"


def check_report_json(report: CheckReport, *, scenarios: int) -> str:
    """Verdict and every finding with its evidence, worst first."""
    return json.dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "ok": report.verdict is not CheckVerdict.INVALID,
            "verdict": report.verdict.value,
            "episode_count": scenarios,
            **report.model_dump(mode="json"),
        },
        indent=2,
    )
