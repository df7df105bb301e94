"""What tokens cost."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.model import TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars per million tokens; None where the price is not known."""

    input_usd: float | None
    output_usd: float | None

    def of(self, tokens: TokenUsage) -> float | None:
        """What an amount of tokens cost; None if a price is not known."""
        if self.input_usd is None or self.output_usd is None:
            return None
        tokens_in = max(tokens.total_tokens - tokens.completion_tokens, 0)
        return (tokens_in * self.input_usd + tokens.completion_tokens * self.output_usd) / 1e6
