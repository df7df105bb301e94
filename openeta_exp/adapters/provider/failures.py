"""What a failed request means: try again, go elsewhere, or give up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum

from openeta_exp.domain.model import TokenUsage

MAX_REASON_CHARACTERS = 300

_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504, *range(520, 528)})
_FAILOVER = frozenset({401, 403, 408, 429, 502, 503, 504, *range(520, 528)})
_CAPACITY = re.compile(r"overload|capacity|concurrency", re.IGNORECASE)
_PAYMENT_REQUIRED = 402
_QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "insufficient_balance",
        "insufficient_credits",
        "billing_hard_limit_reached",
        "billing_not_active",
        "credit_balance_too_low",
    }
)


_RATE_LIMIT_CODES = frozenset(
    {
        "rate_limit_error",
        "rate_limit_exceeded",
        "rate_limit_reached",
        "rate_limited",
        "resource_exhausted",
        "too_many_requests",
    }
)
_ERROR_STATUS = re.compile(r"[45][0-9]{2}")
_TOO_MANY_REQUESTS = 429
_BAD_GATEWAY = 502


class FailureClass(StrEnum):
    """Decides which exception a call ends with."""

    UNAVAILABLE = "unavailable"
    """No answer: broken, overloaded, unreachable, too slow."""
    REFUSED = "refused"
    """The endpoint does not accept the request or the key."""
    QUOTA = "quota"
    """The account is exhausted."""
    UNUSABLE = "unusable"
    """A model's answer without content."""
    CUT = "cut"
    """An answer that ends where `max_output_tokens` ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One request that brought no usable answer.

    Attributes:
        reason: Fit to be shown: short, one line, without the key.
        transient: The same endpoint may answer next time.
        failover: The other endpoint may answer.
        rate_limited: The endpoint asks every caller to slow down.
        may_be_charged: The endpoint may have answered, and nobody knows what it charged.
        charged: What the endpoint said it charged all the same; None if it said nothing.
    """

    kind: FailureClass
    reason: str
    transient: bool = False
    failover: bool = False
    rate_limited: bool = False
    retry_after_s: float | None = None
    may_be_charged: bool = False
    charged: TokenUsage | None = None


def unreachable(reason: str, *, sent: bool) -> Failure:
    """No HTTP answer at all."""
    return Failure(
        kind=FailureClass.UNAVAILABLE,
        reason=reason,
        transient=True,
        failover=True,
        may_be_charged=sent,
    )


def no_completion(reason: str, *, charged: TokenUsage | None = None) -> Failure:
    """Something else than a model's answer came: a page, a stream, no choice.

    That is a bad gateway, whatever the HTTP status says.
    """
    return Failure(
        kind=FailureClass.UNAVAILABLE,
        reason=reason,
        transient=True,
        failover=True,
        may_be_charged=True,
        charged=charged,
    )


def empty(reason: str) -> Failure:
    """Nothing to read; the next answer may be better."""
    return Failure(kind=FailureClass.UNUSABLE, reason=reason, transient=True)


def cut(reason: str) -> Failure:
    """Asking again at temperature 0 would be cut at the same place."""
    return Failure(kind=FailureClass.CUT, reason=reason)


def classify(
    status: int, *, codes: frozenset[str], text: str, headers: Mapping[str, str], now_unix_s: float
) -> Failure:
    """Read an HTTP error.

    Args:
        codes: The `code` and `type` of the error body.
        text: The error message, without the key.
    """
    if status == _PAYMENT_REQUIRED or codes & _QUOTA_CODES:
        # Failing over is no retry: the other endpoint has an account of its own.
        return Failure(kind=FailureClass.QUOTA, reason=text, failover=True)
    transient = status in _TRANSIENT
    overloaded = status == 500 and _CAPACITY.search(text) is not None
    return Failure(
        kind=FailureClass.UNAVAILABLE if transient else FailureClass.REFUSED,
        reason=text,
        transient=transient,
        failover=status in _FAILOVER or overloaded,
        rate_limited=status == 429,
        retry_after_s=retry_after_s(headers, now_unix_s=now_unix_s) if transient else None,
    )


def status_named(codes: frozenset[str]) -> int:
    """The HTTP status an error should have come with that came with 200.

    Args:
        codes: The `code`, `type` and `status` of the error.
    """
    named = [int(code) for code in codes if _ERROR_STATUS.fullmatch(code)]
    if named:
        return min(named)
    limited = not _RATE_LIMIT_CODES.isdisjoint(code.lower() for code in codes)
    return _TOO_MANY_REQUESTS if limited else _BAD_GATEWAY


def retry_after_s(headers: Mapping[str, str], *, now_unix_s: float) -> float | None:
    """The wait an endpoint asks for: milliseconds, seconds or a date; None if it makes no sense."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, until.timestamp() - now_unix_s)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def presentable(text: str, *, secret: str) -> str:
    """One line of at most `MAX_REASON_CHARACTERS`, with the secret blotted out."""
    if secret:
        text = text.replace(secret, "[key]")
    line = " ".join(text.split())
    if len(line) > MAX_REASON_CHARACTERS:
        return line[: MAX_REASON_CHARACTERS - 1] + "…"
    return line
