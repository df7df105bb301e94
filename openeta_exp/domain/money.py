"""What model calls cost, and the most that may be spent on them."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.model import ModelRole, TokenUsage

LEAST_TELLING = 256
"""Estimated tokens from which on a prompt says how a model counts: what an endpoint puts before
every prompt outweighs a shorter one."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """An amount of tokens by what they are charged as."""

    read: int = 0
    """Input: what the model was sent."""
    written: int = 0
    """Output: what it answered, its thinking included."""

    @classmethod
    def of(cls, usage: TokenUsage) -> Tokens:
        """An endpoint that reports only a total has no split; its tokens are then all input."""
        written = usage.completion_tokens
        return cls(max(usage.total_tokens - written, 0), written)

    @property
    def total(self) -> int:
        return self.read + self.written

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.read + other.read, self.written + other.written)

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(self.read - other.read, self.written - other.written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars per million tokens; None where the price is not known."""

    input_usd: float | None
    output_usd: float | None

    def of(self, tokens: Tokens) -> float | None:
        """What an amount of tokens costs; None if a price is not known."""
        if self.input_usd is None or self.output_usd is None:
            return None
        return (tokens.read * self.input_usd + tokens.written * self.output_usd) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Most that may be spent; None is no limit."""

    experiment_usd: float | None = None
    generation_usd: float | None = None
    experiment_tokens: int | None = None
    generation_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One attempt at a model call, as it is put on record before it is sent.

    Attributes:
        estimated: Tokens of the prompt by the rule of `wire.chat_tokens`.
        most: What the attempt may cost.
    """

    generation: int
    role: ModelRole
    estimated: int
    most: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the attempts of one role in one generation cost.

    Attributes:
        settled: Whether the endpoint's answer said so. Otherwise no answer came, and `tokens` is
            the most they can have cost.
        margin: The largest ratio of charged input to its estimate; 0 if unknown.
    """

    generation: int
    role: ModelRole
    settled: bool
    calls: int
    tokens: Tokens
    margin: float = 0.0
