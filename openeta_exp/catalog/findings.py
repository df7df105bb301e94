"""How checks say what they found; the records are `domain.finding`'s."""

from __future__ import annotations

from openeta_exp.domain.finding import CheckReport, CheckVerdict, Finding
from openeta_exp.domain.identity import JsonObject

__all__ = ["CheckReport", "CheckVerdict", "Finding", "invalid", "ok", "suspect", "unknown"]


def ok(check: str, message: str, evidence: JsonObject | None = None) -> Finding:
    return _finding(check, CheckVerdict.OK, message, evidence)


def unknown(check: str, message: str, evidence: JsonObject | None = None) -> Finding:
    return _finding(check, CheckVerdict.UNKNOWN, message, evidence)


def suspect(check: str, message: str, evidence: JsonObject | None = None) -> Finding:
    return _finding(check, CheckVerdict.SUSPECT, message, evidence)


def invalid(check: str, message: str, evidence: JsonObject | None = None) -> Finding:
    return _finding(check, CheckVerdict.INVALID, message, evidence)


def _finding(
    check: str, verdict: CheckVerdict, message: str, evidence: JsonObject | None
) -> Finding:
    return Finding(check=check, verdict=verdict, message=message, evidence=evidence or {})
