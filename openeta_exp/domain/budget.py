"""What an episode may spend, and which limit it hit first."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from openeta_exp.domain.record import Record
from openeta_exp.domain.stop import StopReason


class Budget(Record):
    """Limits of one episode."""

    max_turns: int = Field(default=100, ge=1, strict=True)
    """Planner turns."""
    max_tool_calls: int = Field(default=200, ge=1, strict=True)
    """Concrete tool attempts, failed ones included. The episode fails once more are observed."""
    timeout_s: float = Field(default=3600.0, gt=0)
    """Wall clock over create, reset, model and tools, in seconds."""
    max_total_tokens: int = Field(default=5_000_000, ge=1, strict=True)
    """Model tokens of every role, validation retries included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What an episode has used so far."""

    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    elapsed_s: float = 0.0


def exceeded(budget: Budget, spent: Spent) -> StopReason | None:
    """The limit that ends the episode now, in the documented order: time, tokens, tool calls.

    Turns come last, because the turn that reaches the limit is still committed.
    """
    if spent.elapsed_s >= budget.timeout_s:
        return StopReason.EPISODE_TIMEOUT
    if spent.tokens > budget.max_total_tokens:
        return StopReason.TOKEN_LIMIT_EXCEEDED
    if spent.tool_calls > budget.max_tool_calls:
        return StopReason.TOOL_CALL_LIMIT_EXCEEDED
    if spent.turns >= budget.max_turns:
        return StopReason.MAX_TURNS
    return None
