"""How often the e-value rule promotes, enumerated over everything that can happen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from openeta_exp.statistics.agent_model import PairRates
from openeta_exp.statistics.e_values import log_discordant_e_value, log_gain_e_value
from openeta_exp.statistics.operating import OperatingPoint

_NEGLIGIBLE = 1e-26
"""Chance of one count of wins or losses below which it is left out: over all counts and pairs such
chances do not add up to the precision of a float."""
_PAIRS_BETWEEN_TRIMS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AnytimeDesign:
    """Attributes:
    alpha: Promote when the evidence reaches `1 / alpha`.
    n_max: Pairs that can be paid for. The evidence would allow going on.
    n_min: Pairs before anything is decided.
    delta_min: Smallest gain worth a promotion; evidence against it ends the test.
    harm_alpha: Give up when the evidence for harm, or against `delta_min`, reaches its inverse;
        0 never gives up.
    """

    alpha: float = 0.05
    n_max: int = 60
    n_min: int = 0
    delta_min: float = 0.15
    harm_alpha: float = 0.05


def anytime_operating_point(rates: PairRates, design: AnytimeDesign) -> OperatingPoint:
    """The e-value rule with a look after every pair, enumerated over all counts."""
    alive = _Alive(np.ones((1, 1)), 0, 0)
    promote = reject = mean_pairs = 0.0
    stops = anytime_boundaries(design)
    for pair in range(1, design.n_max + 1):
        mean_pairs += float(alive.chances.sum())
        alive = alive.after_a_pair(rates)
        if pair >= design.n_min:
            wins, losses = alive.counts()
            promote += alive.take_out(wins >= stops.promoting_wins[losses])
            harmful = losses >= stops.harmful_losses[wins]
            reject += alive.take_out(harmful | (wins <= stops.futile_wins[pair][losses]))
        if pair % _PAIRS_BETWEEN_TRIMS == 0:
            alive = alive.trimmed()
    return OperatingPoint(promote=promote, reject=reject, mean_pairs=mean_pairs)


@dataclass(frozen=True, slots=True)
class _Alive:
    """Where the streams are that have not stopped.

    Attributes:
        chances: `[w, l]` of `first_wins + w` wins and `first_losses + l` losses. Of all counts it
            is a window that grows with the root of the pairs.
    """

    chances: NDArray[np.float64]
    first_wins: int
    first_losses: int

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Wins `[w, 1]` and losses `[1, l]`."""
        wins, losses = self.chances.shape
        return (
            np.arange(self.first_wins, self.first_wins + wins)[:, None],
            np.arange(self.first_losses, self.first_losses + losses)[None, :],
        )

    def after_a_pair(self, rates: PairRates) -> _Alive:
        wins, losses = self.chances.shape
        moved = np.zeros((wins + 1, losses + 1))
        moved[:-1, :-1] = self.chances * (rates.both + rates.neither)
        moved[1:, :-1] += self.chances * rates.wins
        moved[:-1, 1:] += self.chances * rates.losses
        return _Alive(moved, self.first_wins, self.first_losses)

    def take_out(self, stopped: NDArray[np.bool_]) -> float:
        """The chance of the counts that stop, which are alive no longer."""
        chance = float(self.chances[stopped].sum())
        self.chances[stopped] = 0.0
        return chance

    def trimmed(self) -> _Alive:
        """Without wins and losses at the edges that hardly anything has."""
        wins = np.flatnonzero(self.chances.sum(axis=1) > _NEGLIGIBLE)
        losses = np.flatnonzero(self.chances.sum(axis=0) > _NEGLIGIBLE)
        if not wins.size:
            return _Alive(np.zeros((1, 1)), 0, 0)
        return _Alive(
            self.chances[wins[0] : wins[-1] + 1, losses[0] : losses[-1] + 1],
            self.first_wins + int(wins[0]),
            self.first_losses + int(losses[0]),
        )


@dataclass(frozen=True, slots=True)
class Boundaries:
    """At which counts the test stops.

    Attributes:
        promoting_wins: `[losses]` fewest wins that promote.
        harmful_losses: `[wins]` fewest losses that are evidence of harm.
        futile_wins: `[pairs, losses]` most wins that are evidence against a gain of `delta_min`;
            -1 if none are.
    """

    promoting_wins: NDArray[np.int64]
    harmful_losses: NDArray[np.int64]
    futile_wins: NDArray[np.int64]


@lru_cache(maxsize=16)
def anytime_boundaries(design: AnytimeDesign) -> Boundaries:
    size = design.n_max + 1
    never = np.full(size, size)
    return Boundaries(
        promoting_wins=_fewest_convincing(size, alpha=design.alpha),
        harmful_losses=_fewest_convincing(size, alpha=design.harm_alpha)
        if design.harm_alpha > 0
        else never,
        futile_wins=_futile_wins(design),
    )


def _fewest_convincing(size: int, *, alpha: float) -> NDArray[np.int64]:
    """`[other]` fewest discordant pairs of one side that outweigh `other` ones; `size` if none."""
    other, enough = np.arange(size), -math.log(alpha)
    few, many = np.full(size, -1), np.full(size, size)
    # Every further pair of a side is evidence for it, so bisection finds where it suffices.
    while np.any(many - few > 1):
        middle = (few + many) // 2
        convinces = log_discordant_e_value(middle, other) >= enough
        many, few = np.where(convinces, middle, many), np.where(convinces, few, middle)
    return many


def _futile_wins(design: AnytimeDesign) -> NDArray[np.int64]:
    """One line after the other: a tie is evidence against the gain and a win is evidence for it,
    so that with every pair the boundary stays or moves up by one win."""
    size = design.n_max + 1
    most = np.full((size, size), -1)
    if design.harm_alpha == 0:
        return most
    enough = -math.log(design.harm_alpha)
    for pairs in range(1, size):
        losses = np.arange(pairs + 1)
        wins = most[pairs - 1, : pairs + 1] + 1
        against = log_gain_e_value(losses, wins, pairs=pairs, at_most=-design.delta_min)
        most[pairs, : pairs + 1] = np.where(against >= enough, wins, wins - 1)
    return most
