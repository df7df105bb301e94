"""What an experiment has cost, over every run of its command, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.event import (
    CandidateProposed,
    CandidateReviewed,
    EpisodeEnded,
    Event,
    GenerationStarted,
)
from openeta_exp.domain.model import TokenUsage
from openeta_exp.engine.prices import Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Most that may be spent; None is no limit."""

    experiment_usd: float | None = None
    generation_usd: float | None = None
    experiment_tokens: int | None = None
    generation_tokens: int | None = None


class Spending:
    """Adds up what the journal says was used. Survives a restart, because the journal does."""

    def __init__(self, caps: Caps, prices: Prices) -> None:
        self._caps = caps
        self._prices = prices
        self.experiment = TokenUsage()
        self.generation = TokenUsage()

    def take(self, event: Event) -> None:
        """Count one fact, from an earlier run or from this one."""
        match event:
            case GenerationStarted():
                self.generation = TokenUsage()
            case EpisodeEnded(outcome=outcome):
                self._add(outcome.usage.tokens)
            case CandidateProposed(proposal=proposal):
                self._add(proposal.usage)
            case CandidateReviewed(review=review):
                self._add(review.usage)
            case _:
                pass

    def _add(self, tokens: TokenUsage) -> None:
        self.experiment += tokens
        self.generation += tokens

    def exhausted(self) -> str | None:
        """Which cap is reached, or None."""
        caps = self._caps
        amounts = (
            ("experiment_tokens", caps.experiment_tokens, self.experiment.total_tokens),
            ("generation_tokens", caps.generation_tokens, self.generation.total_tokens),
            ("experiment_usd", caps.experiment_usd, self._prices.of(self.experiment)),
            ("generation_usd", caps.generation_usd, self._prices.of(self.generation)),
        )
        for name, cap, spent in amounts:
            if cap is not None and spent is not None and spent >= cap:
                return f"money.{name} = {cap:g} is reached: {spent:g}"
        return None
