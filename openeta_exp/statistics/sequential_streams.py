"""Plays many streams of paired differences through the sequential test at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openeta_exp.statistics.sequential_design import (
    Reestimation,
    SequentialDesign,
    conditional_power,
    reestimated,
)

_NEGLIGIBLE = 1e-18
"""Share of alpha that is lost in the precision of a float anyway."""


@dataclass(frozen=True, slots=True)
class Endings:
    """How simulated streams ended.

    Attributes:
        promoted, rejected: `[runs]` bool; neither where the budget ran out.
        pairs: `[runs]` pairs consumed.
    """

    promoted: NDArray[np.bool_]
    rejected: NDArray[np.bool_]
    pairs: NDArray[np.int64]


def simulate(
    design: SequentialDesign,
    differences: NDArray[np.int8],
    *,
    rule: Reestimation | None = None,
    not_before: int = 0,
) -> Endings:
    """Play `[runs, pairs]` streams of -1, 0, 1 at once: the same test as `sequential.run`.

    Streams that are shorter than `n_max` get a last look out of turn.

    Args:
        rule: Re-estimate `n_max` at the first look of each stream.
        not_before: Pairs before which looks are left out.
    """
    runs, available = differences.shape
    looks = _looks(design, available, not_before=not_before)
    if rule is None or not looks:
        return _simulate(design, differences, not_before=not_before)
    ends = Endings(
        np.zeros(runs, dtype=np.bool_),
        np.zeros(runs, dtype=np.bool_),
        np.zeros(runs, dtype=np.int64),
    )
    discordant = np.abs(differences[:, : looks[0]]).sum(axis=1)
    for count in np.unique(discordant):
        fitted = reestimated(design, pairs=looks[0], discordant=int(count), rule=rule)
        alike = discordant == count
        some = _simulate(fitted, differences[alike], not_before=not_before)
        ends.promoted[alike], ends.rejected[alike] = some.promoted, some.rejected
        ends.pairs[alike] = some.pairs
    return ends


def _looks(design: SequentialDesign, longest: int, *, not_before: int) -> list[int]:
    """Pairs after which streams of this length are looked at."""
    return [
        pairs
        for pairs in range(max(1, not_before), longest + 1)
        if design.looks_after(pairs) or (pairs == longest and pairs >= design.n_min)
    ]


def _simulate(
    design: SequentialDesign, differences: NDArray[np.int8], *, not_before: int
) -> Endings:
    runs, longest = len(differences), min(design.n_max, differences.shape[1])
    ends = Endings(
        np.zeros(runs, dtype=np.bool_),
        np.zeros(runs, dtype=np.bool_),
        np.full(runs, longest, dtype=np.int64),
    )
    active = np.arange(runs)
    chances = _Chances(np.abs(differences[:, :longest]), alpha=design.alpha)
    wins, losses, spent = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    played = 0
    for pairs in _looks(design, longest, not_before=not_before):
        steps = differences[active, played:pairs]
        won, lost = (steps > 0).sum(axis=1), (steps < 0).sum(axis=1)
        played = pairs
        wins[active] += won
        losses[active] += lost
        chances.flip(active, won + lost)
        budget = design.alpha * min(1.0, pairs / design.n_max) ** design.rho - spent[active]
        critical, spending = chances.spend(active, np.maximum(budget, 0.0))
        spent[active] += spending
        promoted = wins[active] >= critical
        rejected = np.zeros_like(promoted)
        if pairs < design.n_max:
            power = conditional_power(design, pairs=pairs, wins=wins[active], losses=losses[active])
            rejected = ~promoted & (power < design.gamma)
        ends.promoted[active[promoted]] = True
        ends.rejected[active[rejected]] = True
        stopped = promoted | rejected
        ends.pairs[active[stopped]] = pairs
        active = active[~stopped]
        if not active.size:
            break
    return ends


class _Chances:
    """`P(wins = k and no earlier rejection)` if no arm is better, for every stream.

    Of each stream only a band is worth keeping: above `_ceiling` everything was rejected or is
    impossible, and ten standard deviations below the middle there is nothing to speak of. The
    band grows with the root of the discordant pairs, where all counts would grow with the pairs.
    """

    def __init__(self, discordant: NDArray[np.int8], *, alpha: float) -> None:
        """For streams that differ where `discordant` `[runs, pairs]` is 1."""
        runs = len(discordant)
        most = int(discordant.sum(axis=1, dtype=np.int64).max(initial=0))
        self._surviving = np.zeros((runs, most + 1))
        self._surviving[:, 0] = 1.0
        self._ceiling = np.zeros(runs, dtype=np.int64)
        self._flips = np.zeros(runs, dtype=np.int64)
        self._decades = math.log(1 / (alpha * _NEGLIGIBLE))

    def flip(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        """Advance each of the streams by so many fair coins."""
        if not times.any():
            return
        low = self._floor(int(self._flips[rows].min()))
        self._ceiling[rows] += times
        self._flips[rows] += times
        band = self._surviving[:, low : int(self._ceiling[rows].max()) + 1]
        for count in np.unique(times[times > 0]):
            turning = rows[times == count]
            masses = band[turning]
            for _ in range(count):
                masses *= 0.5
                masses[:, 1:] += masses[:, :-1].copy()
            band[turning] = masses

    def spend(
        self, rows: NDArray[np.int64], budget: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Critical wins and alpha spent, by stream; clears the rejected mass."""
        critical = self._ceiling[rows] + 1
        spending = np.zeros(len(rows))
        going = np.arange(len(rows))
        while going.size:
            mass = self._surviving[rows[going], critical[going] - 1]
            tail = spending[going] + mass
            affordable = tail <= budget[going]
            going = going[affordable]
            spending[going] = tail[affordable]
            critical[going] -= 1
            self._surviving[rows[going], critical[going]] = 0.0
        self._ceiling[rows] = critical - 1
        return critical, spending

    def _floor(self, flips: int) -> int:
        """Fewest wins worth counting after at least so many flips (Hoeffding's bound)."""
        return max(0, math.floor(flips / 2 - math.sqrt(flips / 2 * self._decades)))
