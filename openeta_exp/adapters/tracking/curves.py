"""The running metrics of a batch: how it went, attempt by attempt."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from openeta_exp.adapters.tracking.run_view import Point
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.history import BatchHistory
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.stop import FailureClass
from openeta_exp.domain.summary import EpisodeStatus, status_of
from openeta_exp.domain.token_tally import AttemptTokens


@dataclass(slots=True)
class Curves:
    """A step for every attempt that ends.

    Rates are over episodes, each with the outcome that counts by then, so the last point is what
    the summary says. Tokens are of all attempts that the batch made itself.
    """

    batch: BatchHistory
    """Knows of each fact before its curves do."""
    attempts: int = 0
    tokens: int = 0
    failed: set[FailureClass] = field(default_factory=set)
    """What attempts failed of, those that were run again included."""
    _episodes: frozenset[Digest] = frozenset()
    """Of the manifest as it is now; what ends besides them makes no rate."""
    _counted: dict[Digest, tuple[str, ...]] = field(default_factory=dict)
    """What each ended episode of the manifest adds to the sums."""
    _sums: Counter[str] = field(default_factory=Counter)
    _attempt_tokens: AttemptTokens = field(default_factory=AttemptTokens)

    def begin(self) -> None:
        """The batch starts, or goes on with what may be another manifest.

        Verdicts that are reused are where the curves start.
        """
        outcomes = self.batch.outcomes
        if self.batch.runs == 1:
            self.attempts = len(outcomes)
            for outcome in outcomes.values():
                self._attempt_tokens.of(outcome)
        self._counted.clear()
        self._sums.clear()
        specs = self.batch.started.manifest.episodes
        self._episodes = frozenset(spec.content_digest for spec in specs)
        for outcome in outcomes.values():
            self._count(outcome)

    def advance(self, outcome: EpisodeOutcome, *, at_s: float) -> tuple[Point, ...]:
        """The points that one more attempt makes."""
        self.attempts += 1
        tokens = self._attempt_tokens.of(outcome)
        self.tokens += tokens
        if status_of(outcome) is EpisodeStatus.FAIL:
            self.failed.add(outcome.failure_class)
        self._count(self.batch.outcomes[outcome.spec_digest])
        values = {
            "episodes/infrastructure_failures": self._sums["broken"],
            "episodes/turns": outcome.usage.turns,
            "episodes/duration_s": outcome.usage.duration_s,
            "episodes/tokens": tokens,
            "episodes/tokens_total": self.tokens,
        }
        successes, verdicts = self._sums["successes"], self._sums["verdicts"]
        if self._counted:
            values["episodes/success_rate"] = successes / len(self._counted)
        if verdicts:
            values["episodes/success_rate_over_results"] = successes / verdicts
        return tuple(
            Point(key, float(value), int(at_s * 1000), self.attempts)
            for key, value in values.items()
        )

    def _count(self, outcome: EpisodeOutcome) -> None:
        """Put an outcome in the place of the one that counted for its episode before."""
        if outcome.spec_digest not in self._episodes:
            return
        self._sums.subtract(self._counted.get(outcome.spec_digest, ()))
        self._counted[outcome.spec_digest] = added = _adds(outcome)
        self._sums.update(added)


def _adds(outcome: EpisodeOutcome) -> tuple[str, ...]:
    if isinstance(outcome, EpisodeFailure):
        return ("broken",)
    waits = status_of(outcome) is EpisodeStatus.NEED_HUMAN
    if waits or outcome.failure_class is FailureClass.INVALID:
        return ()
    return ("verdicts", "successes") if outcome.success else ("verdicts",)
