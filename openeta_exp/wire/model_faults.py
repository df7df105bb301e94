"""Failures and delays on request: a line like `latency=0.2,rate_limit@1-3,retry_after=2`.

Comma-separated items, in any order:

    latency=S            every answer leaves S seconds after its request came
    retry_after=S        the Retry-After header of rate_limit (whole or decimal seconds)
    seed=N               for percentages
    KIND                 every request
    KIND@N  KIND@N-M     the Nth request (from 1), or the Nth to the Mth
    KIND/N               every Nth request
    KIND%P               P percent of the requests, drawn by seed and request number

The first item that applies to a request wins. Requests are counted per line, so two clients
with different lines do not disturb each other.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    RATE_LIMIT = "rate_limit"
    """429, with Retry-After if one is given."""
    QUOTA = "quota"
    """429 with the code `insufficient_quota`."""
    SERVER_ERROR = "server_error"
    """500."""
    OVERLOADED = "overloaded"
    """500 whose text speaks of capacity."""
    UNAVAILABLE = "unavailable"
    """503."""
    UNAUTHORIZED = "unauthorized"
    """401, quoting the key like some endpoints do."""
    GARBAGE = "garbage"
    """200 with a body that is no JSON."""
    MALFORMED = "malformed"
    """A completion whose content is no command."""
    TRUNCATED = "truncated"
    """Half the content, and `finish_reason` length."""
    EMPTY = "empty"
    """A completion with empty content."""
    NO_CHOICES = "no_choices"
    NO_USAGE = "no_usage"
    """The right answer without token counts."""
    STALL = "stall"
    """No answer until the client hangs up."""
    DROP = "drop"
    """The connection closes in the middle of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """One kind, and the requests it applies to; `percent` excludes the range."""

    kind: FaultKind
    first: int = 1
    last: int | None = None
    every: int = 1
    percent: float | None = None

    def applies(self, number: int, *, seed: int) -> bool:
        """Does the rule apply to this request, counted from 1?"""
        if self.percent is not None:
            return random.Random(f"{seed}:{self.kind}:{number}").random() * 100 < self.percent
        in_range = self.first <= number and (self.last is None or number <= self.last)
        return in_range and number % self.every == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """What goes wrong, and when."""

    rules: tuple[FaultRule, ...] = ()
    latency_s: float = 0.0
    retry_after: str | None = None
    seed: int = 0

    def fault(self, number: int) -> FaultKind | None:
        """Of the request with this number, counted from 1."""
        applying = (rule.kind for rule in self.rules if rule.applies(number, seed=self.seed))
        return next(applying, None)


_RULE = re.compile(
    r"(?P<kind>[a-z_]+)(?:@(?P<first>\d+)(?P<range>-(?P<last>\d+))?|/(?P<every>\d+)|"
    r"%(?P<percent>\d+(?:\.\d+)?))?"
)
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,6})?")


def parse_faults(line: str) -> FaultPlan:
    """Raises: ValueError: Naming the item that cannot be read."""
    latency_s, retry_after, seed = 0.0, None, 0
    rules: list[FaultRule] = []
    for item in filter(None, (part.strip() for part in line.split(","))):
        key, given, value = item.partition("=")
        if not given:
            rules.append(_rule(item))
        elif not _NUMBER.fullmatch(value):
            raise ValueError(f"{item!r}: give a number of at most six digits")
        elif key == "latency":
            latency_s = float(value)
        elif key == "retry_after":
            retry_after = value
        elif key == "seed" and value.isdigit():
            seed = int(value)
        else:
            raise ValueError(f"{item!r}: only latency, retry_after and a whole seed take a value")
    return FaultPlan(rules=tuple(rules), latency_s=latency_s, retry_after=retry_after, seed=seed)


def _rule(item: str) -> FaultRule:
    match = _RULE.fullmatch(item)
    if match is None or match["kind"] not in set(FaultKind):
        raise ValueError(f"{item!r}: use one of {', '.join(FaultKind)} with @N, @N-M, /N or %P")
    kind = FaultKind(match["kind"])
    if match["percent"] is not None:
        return FaultRule(kind=kind, percent=float(match["percent"]))
    if match["every"] is not None:
        return FaultRule(kind=kind, every=max(1, int(match["every"])))
    if match["first"] is None:
        return FaultRule(kind=kind)
    first = int(match["first"])
    return FaultRule(kind=kind, first=first, last=int(match["last"] or first))
