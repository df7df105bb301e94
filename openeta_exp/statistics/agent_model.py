"""How often two arms differ: a model of agents that are more or less deterministic.

Episode difficulty is Beta distributed with the agent's mean success rate; runs of one episode are
independent given its difficulty; a candidate shifts every episode in the same order. `icc` is the
share of variance between episodes: 1 means that a rerun always agrees, 0 that every run is a fresh
draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, betaln

from openeta_exp.statistics.roots import falling_root

_QUANTILES = (np.arange(20_000) + 0.5) / 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRates:
    """Probabilities of the four ways in which a pair can end. They sum to one."""

    wins: float
    losses: float
    both: float
    neither: float

    def __post_init__(self) -> None:
        cells = (self.wins, self.losses, self.both, self.neither)
        if min(cells) < -1e-9 or abs(sum(cells) - 1) > 1e-6:
            raise ValueError(f"not a distribution over pairs: {cells}")

    @property
    def discordance(self) -> float:
        return self.wins + self.losses


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModel:
    """What is believed about the baseline before running.

    Attributes:
        success_rate: Mean over episodes.
        icc: How deterministic the agent is on a given episode.
    """

    success_rate: float = 0.7
    icc: float = 0.5

    def __post_init__(self) -> None:
        if not (0 <= self.success_rate <= 1 and 0 <= self.icc <= 1):
            raise ValueError("success_rate and icc lie in [0, 1]")

    def against(self, effect: float) -> PairRates:
        """The rates of a comparison with a candidate that is better by `effect`.

        Raises:
            ValueError: If the candidate's success rate would leave [0, 1].
        """
        rate = round(self.success_rate + effect, 12)
        if not 0 <= rate <= 1:
            raise ValueError(f"a success rate of {rate} does not exist")
        baseline = _difficulties(self.success_rate, self.icc)
        candidate = _difficulties(rate, self.icc)
        both = float(np.mean(baseline * candidate))
        # Of the grid itself, which misses the rates by up to its spacing where ICC is close to 1.
        first, second = float(np.mean(baseline)), float(np.mean(candidate))
        return PairRates(
            wins=max(second - both, 0.0),
            losses=max(first - both, 0.0),
            both=both,
            neither=max(1 - first - second + both, 0.0),
        )


@lru_cache(maxsize=32)
def _difficulties(rate: float, icc: float) -> NDArray[np.float64]:
    """Success probabilities at evenly spaced quantiles, `[20000]`; their mean is `rate`."""
    if icc == 0 or rate in (0.0, 1.0):
        return np.full_like(_QUANTILES, rate)
    if icc == 1:
        return np.asarray(rate > 1 - _QUANTILES, dtype=np.float64)
    concentration = 1 / icc - 1
    a, b = rate * concentration, (1 - rate) * concentration
    return np.asarray(betaincinv(a, b, _QUANTILES), dtype=np.float64)


def identical_discordance(success_rate: float, icc: float) -> float:
    """Share of discordant pairs between two runs of the same agent."""
    return 2 * success_rate * (1 - success_rate) * (1 - icc)


def icc_from_pass_at_k(pass_at_1: float, pass_at_k: float, *, k: int) -> float:
    """The ICC that explains how much k attempts at an episode help.

    Raises:
        ValueError: If no ICC explains it: k attempts solve fewer than one, or more than k
            independent ones would.
    """
    ceiling = 1 - (1 - pass_at_1) ** k
    if not (0 < pass_at_1 < 1 and pass_at_1 <= pass_at_k <= ceiling):
        raise ValueError(f"pass@{k} lies between {pass_at_1} and {ceiling:.4f}, not {pass_at_k}")
    if pass_at_k in (pass_at_1, ceiling):
        return 1.0 if pass_at_k == pass_at_1 else 0.0

    def excess(icc: float) -> float:
        concentration = 1 / icc - 1
        a, b = pass_at_1 * concentration, (1 - pass_at_1) * concentration
        return float(1 - np.exp(betaln(a, b + k) - betaln(a, b))) - pass_at_k

    # The more deterministic the agent, the less another attempt helps.
    return falling_root(excess, 1e-6, 1 - 1e-6)
