"""What a Bayesian report may say about a comparison. Never a gate.

Gating on a posterior probability at every look is not error-controlled under optional stopping.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincc, betaincinv

from openeta_exp.statistics.intervals import require_counts

# Dirichlet prior on (win, loss, tie): Jeffreys for the direction, weak on how often arms differ.
PRIOR_DIRECTION = 0.5
PRIOR_TIE = 1.0

QUANTILES = 400
"""Points of the integral over how often arms differ; good for three digits."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Attributes:
    superior: Probability that the candidate is better at all.
    worthwhile: Probability that it is better by more than the smallest gain that matters.
    mean: Expected effect, as a rate.
    """

    superior: float
    worthwhile: float
    mean: float


def superior_probability(wins: int, losses: int, *, prior: float = PRIOR_DIRECTION) -> float:
    """`P(effect > 0)` under a symmetric Beta prior on the direction of a discordant pair."""
    require_counts(wins, losses, pairs=wins + losses)
    return float(betaincc(wins + prior, losses + prior, 0.5))


def posterior(wins: int, losses: int, *, pairs: int, delta_min: float) -> Posterior:
    """Posterior of the effect; `delta_min` is the smallest gain that matters, as a rate."""
    require_counts(wins, losses, pairs=pairs)
    # Discordance and direction are independent, and the effect is discordance * (2 direction - 1).
    discordant, concordant = wins + losses + 2 * PRIOR_DIRECTION, pairs - wins - losses + PRIOR_TIE
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    discordance = betaincinv(discordant, concordant, quantiles)
    share_needed = np.minimum(0.5 + 0.5 * delta_min / discordance, 1.0)
    worthwhile = betaincc(wins + PRIOR_DIRECTION, losses + PRIOR_DIRECTION, share_needed)
    return Posterior(
        superior=superior_probability(wins, losses),
        worthwhile=float(np.mean(worthwhile)),
        mean=(wins - losses) / (pairs + 2 * PRIOR_DIRECTION + PRIOR_TIE),
    )
