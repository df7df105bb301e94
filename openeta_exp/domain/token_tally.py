"""Tokens of what a journal tells, the same sum for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import (
    AuthorAnswered,
    CandidateProposed,
    CandidateReviewed,
    EpisodeEnded,
    Event,
)
from openeta_exp.domain.identity import SessionId


@dataclass(slots=True)
class AttemptTokens:
    """What each attempt took itself.

    The usage of an outcome is that of its session. An attempt that goes on with a session, because
    a person has answered, begins with what the session had used when it asked; whoever adds up
    attempts must count that once.
    """

    _asked: dict[SessionId, int] = field(default_factory=dict)
    """What sessions had used when they asked last."""

    def of(self, outcome: EpisodeOutcome) -> int:
        """To be asked once for each attempt of a session, in the order in which they ended."""
        session = outcome.usage.tokens.total_tokens
        before = self._asked.get(outcome.session_id, 0)
        if isinstance(outcome, EpisodeResult) and outcome.interaction is not None:
            self._asked[outcome.session_id] = session
        return session - before


@dataclass(slots=True)
class TokenTally:
    """What model calls behind the facts took: every attempt that has ended, also one that broke
    and was run again, and every answer of an author or a reviewer.

    An episode that was cut short leaves no fact with its tokens; those are in the account of
    `money` alone.
    """

    total: int = 0
    _attempts: AttemptTokens = field(default_factory=AttemptTokens)

    def take(self, event: Event) -> None:
        """Facts come in the order of the journal."""
        match event:
            case EpisodeEnded(outcome=outcome):
                self.total += self._attempts.of(outcome)
            case AuthorAnswered(reply=reply):
                self.total += reply.usage.total_tokens
            case CandidateProposed(proposal=proposal):
                self.total += proposal.usage.total_tokens
            case CandidateReviewed(review=review):
                self.total += review.usage.total_tokens
            case _:
                pass
