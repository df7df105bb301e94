"""Tokens of what a journal tells, the same sum for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.event import (
    AuthorAnswered,
    CandidateProposed,
    CandidateReviewed,
    EpisodeEnded,
    Event,
)


def tokens_of(event: Event) -> int:
    """What model calls behind one fact took, every attempt that is part of it included."""
    match event:
        case EpisodeEnded(outcome=outcome):
            return outcome.usage.tokens.total_tokens
        case AuthorAnswered(reply=reply):
            return reply.usage.total_tokens
        case CandidateProposed(proposal=proposal):
            return proposal.usage.total_tokens
        case CandidateReviewed(review=review):
            return review.usage.total_tokens
        case _:
            return 0


@dataclass(slots=True)
class TokenTally:
    """Of everything that has ended. An episode that was cut short leaves no fact with its tokens;
    those are in the account of `money` alone."""

    total: int = 0

    def take(self, event: Event) -> None:
        self.total += tokens_of(event)
