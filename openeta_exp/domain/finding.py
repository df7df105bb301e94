"""What a check found: a verdict with the evidence for it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record


class CheckVerdict(StrEnum):
    """Would a comparison mean anything, as far as one check can tell?"""

    OK = "ok"
    UNKNOWN = "unknown"
    """This check cannot tell; another one has to."""
    SUSPECT = "suspect"
    """Probably not what was meant. Reported, and stops nothing."""
    INVALID = "invalid"
    """The comparison would be meaningless. Stops a compare unless it is overridden."""


class Fault(StrEnum):
    """Why something could not be checked at all."""

    INPUT = "input"
    """The user's: an adapter that cannot be built will not be on a second try either."""
    OUTSIDE = "outside"
    """A server that cannot be reached, a process that died."""


_RANK = {each: rank for rank, each in enumerate(CheckVerdict)}


class Finding(Record):
    """One check on one subject."""

    check: str
    """Stable snake_case name of the check."""
    verdict: CheckVerdict
    message: str
    """One sentence: what is wrong, by name, and what to do."""
    evidence: JsonObject = Field(default_factory=dict)
    fault: Fault | None = None
    """What kept the check from being made; None if it was made."""


class CheckReport(Record):
    """Everything the checks found, worst first."""

    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> CheckReport:
        return cls(
            findings=tuple(sorted(findings, key=lambda each: _RANK[each.verdict], reverse=True))
        )

    @property
    def verdict(self) -> CheckVerdict:
        """The worst verdict; what no check could tell is not held against the comparison."""
        worst = max((each.verdict for each in self.findings), key=_RANK.__getitem__, default=None)
        return CheckVerdict.OK if worst in (None, CheckVerdict.UNKNOWN) else worst

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings that need attention."""
        bad = (CheckVerdict.INVALID, CheckVerdict.SUSPECT)
        return tuple(each for each in self.findings if each.verdict in bad)

    @property
    def invalid(self) -> tuple[Finding, ...]:
        """Findings that make the comparison meaningless."""
        return tuple(each for each in self.findings if each.verdict is CheckVerdict.INVALID)

    @property
    def unusable(self) -> tuple[Finding, ...]:
        """Findings about input that cannot be used."""
        return tuple(each for each in self.findings if each.fault is Fault.INPUT)

    @property
    def exit_code(self) -> int:
        """Of a command that ends with the checks; the same mistake ends `compare` with the same.

        What is certain comes before what another try may change.
        """
        if self.unusable:
            return 2
        if any(each.fault is None for each in self.invalid):
            return 4
        return 3 if self.invalid else 0
