"""How checks say what they found; the records are `domain.finding`'s."""

from __future__ import annotations

from openeta_exp.domain.finding import CheckReport, CheckVerdict, Fault, Finding
from openeta_exp.domain.identity import JsonObject
from openeta_exp.errors import OpenEtaError, UserError

__all__ = [
    "CheckReport",
    "CheckVerdict",
    "Finding",
    "invalid",
    "ok",
    "suspect",
    "unknown",
    "unusable",
]


def ok(check: str, message: str, evidence: JsonObject | None = None) -> Finding:
    return _finding(check, CheckVerdict.OK, message, evidence)


def unknown(check: str, message: str, evidence: JsonObject | None = None) -> Finding:
    return _finding(check, CheckVerdict.UNKNOWN, message, evidence)


def suspect(check: str, message: str, evidence: JsonObject | None = None) -> Finding:
    return _finding(check, CheckVerdict.SUSPECT, message, evidence)


def invalid(check: str, message: str, evidence: JsonObject | None = None) -> Finding:
    return _finding(check, CheckVerdict.INVALID, message, evidence)


def unusable(check: str, subject: str, error: OpenEtaError) -> Finding:
    """Something that cannot be built or reached, so that nothing else is known of it."""
    fault = Fault.INPUT if isinstance(error, UserError) else Fault.OUTSIDE
    return invalid(check, f"{subject}: {error}").model_copy(update={"fault": fault})


def _finding(
    check: str, verdict: CheckVerdict, message: str, evidence: JsonObject | None
) -> Finding:
    return Finding(check=check, verdict=verdict, message=message, evidence=evidence or {})
