"""How often each gate promotes, and after how many pairs, for arms of known worth.

The fixed, anytime and no-regression rules are enumerated exactly. The sequential test depends on
the whole history of discordance, so it is simulated, many streams at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, gammaln

from openeta_exp.statistics.agent_model import PairRates
from openeta_exp.statistics.e_values import log_discordant_e_value, log_gain_e_value
from openeta_exp.statistics.no_regression import FailureReports, pass_probability
from openeta_exp.statistics.sequential_design import (
    Reestimation,
    SequentialDesign,
    conditional_power,
    reestimated,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """What a gate does to candidates of one worth.

    Attributes:
        promote: Probability of promotion.
        reject: Probability of giving up before the budget ends.
        mean_pairs: Pairs used on average.
        standard_error: Of `promote`, from simulation; 0 where it was enumerated.
    """

    promote: float
    reject: float
    mean_pairs: float
    standard_error: float = 0.0


def fixed_operating_point(
    rates: PairRates, *, pairs: int, alpha: float, midp: bool = False
) -> OperatingPoint:
    """Exact one-sided McNemar test at a fixed size, enumerated."""
    flips = np.arange(pairs + 1)
    chance_flips = _binomial(pairs, flips, rates.discordance)
    share = rates.wins / rates.discordance if rates.discordance else 0.5
    critical = np.array([_critical_wins(int(f), alpha=alpha, midp=midp) for f in flips])
    promote = float(chance_flips @ bdtrc(critical - 1.0, flips, share))
    return OperatingPoint(promote=min(promote, 1.0), reject=0.0, mean_pairs=float(pairs))


@lru_cache(maxsize=4096)
def _critical_wins(flips: int, *, alpha: float, midp: bool) -> int:
    """Fewest wins among `flips` that reject; `flips + 1` if none does."""
    wins = np.arange(flips + 2)
    p_values = bdtrc(wins - 1.0, flips, 0.5)
    p_values[0], p_values[-1] = 1.0, 0.0
    if midp:
        p_values[:-1] -= 0.5 * _binomial(flips, wins[:-1], 0.5)
    # One part in 1e12 keeps dyadic p-values that equal alpha on the exact side.
    return int(np.argmax(p_values <= alpha * (1 + 1e-12)))


def _binomial(trials: int, successes: NDArray[np.int64], chance: float) -> NDArray[np.float64]:
    if chance in (0.0, 1.0):
        return np.asarray(successes == trials * chance, dtype=np.float64)
    log_ways = gammaln(trials + 1) - gammaln(successes + 1) - gammaln(trials - successes + 1)
    log_mass = successes * math.log(chance) + (trials - successes) * math.log1p(-chance)
    return np.asarray(np.exp(log_ways + log_mass), dtype=np.float64)


def no_regression_operating_point(
    rates: PairRates, *, pairs: int, reports: FailureReports | None = None
) -> OperatingPoint:
    """The rule that no episode may get worse, enumerated."""
    promote = pass_probability(pairs, rates=rates, reports=reports)
    return OperatingPoint(promote=promote, reject=1 - promote, mean_pairs=float(pairs))


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
    size = design.n_max + 1
    alive = np.zeros((size, size))
    alive[0, 0] = 1.0
    promote = reject = mean_pairs = 0.0
    promotes, rejects = _anytime_boundaries(design)
    for pair in range(1, size):
        mean_pairs += float(alive.sum())
        moved = alive * (rates.both + rates.neither)
        moved[1:] += alive[:-1] * rates.wins
        moved[:, 1:] += alive[:, :-1] * rates.losses
        alive = moved
        if pair >= design.n_min:
            promote += float(alive[promotes].sum())
            alive[promotes] = 0.0
            reject += float(alive[rejects[pair]].sum())
            alive[rejects[pair]] = 0.0
    return OperatingPoint(promote=promote, reject=reject, mean_pairs=mean_pairs)


@lru_cache(maxsize=16)
def _anytime_boundaries(
    design: AnytimeDesign,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where (wins, losses) promote, `[n+1, n+1]`, and where they give up, `[n+1, n+1, n+1]`."""
    wins, losses = np.indices((design.n_max + 1, design.n_max + 1))
    promotes = log_discordant_e_value(wins, losses) >= -math.log(design.alpha)
    rejects = np.zeros((design.n_max + 1, *promotes.shape), dtype=np.bool_)
    if design.harm_alpha > 0:
        enough = -math.log(design.harm_alpha)
        rejects[:] = log_discordant_e_value(losses, wins) >= enough
        for pairs in range(1, design.n_max + 1):
            possible = wins + losses <= pairs
            won, lost = wins[possible], losses[possible]
            against = log_gain_e_value(lost, won, pairs=pairs, at_most=-design.delta_min)
            rejects[pairs][possible] |= against >= enough
    return promotes, rejects


def sequential_operating_point(
    rates: PairRates,
    design: SequentialDesign,
    *,
    runs: int,
    seed: int,
    rule: Reestimation | None = None,
    available: int | None = None,
) -> OperatingPoint:
    """The default gate, simulated on `runs` streams of pairs, cut off after those available."""
    generator = np.random.default_rng(seed)
    longest = design.n_max if rule is None else max(rule.largest, design.n_max)
    longest = longest if available is None else min(longest, available)
    draws = generator.random((runs, longest), dtype=np.float32)
    differences = (draws < rates.wins).astype(np.int8)
    differences -= (draws >= 1 - rates.losses).astype(np.int8)
    looks = [pairs for pairs in range(1, longest + 1) if design.looks_after(pairs)]
    if rule is None or not looks:
        return _summary([simulate(design, differences)])
    first = looks[0]
    discordant = np.abs(differences[:, :first]).sum(axis=1)
    ends = []
    for count in np.unique(discordant):
        fitted = reestimated(design, pairs=first, discordant=int(count), rule=rule)
        ends.append(simulate(fitted, differences[discordant == count]))
    return _summary(ends)


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


def _summary(ends: list[Endings]) -> OperatingPoint:
    promoted = np.concatenate([end.promoted for end in ends])
    promote = float(promoted.mean())
    return OperatingPoint(
        promote=promote,
        reject=float(np.concatenate([end.rejected for end in ends]).mean()),
        mean_pairs=float(np.concatenate([end.pairs for end in ends]).mean()),
        standard_error=math.sqrt(promote * (1 - promote) / len(promoted)),
    )


def simulate(design: SequentialDesign, differences: NDArray[np.int8]) -> Endings:
    """Play `[runs, pairs]` streams of -1, 0, 1 at once: the same test as `sequential.run`.

    Streams that are shorter than `n_max` get a last look out of turn.
    """
    runs, longest = len(differences), min(design.n_max, differences.shape[1])
    ends = Endings(
        np.zeros(runs, dtype=np.bool_),
        np.zeros(runs, dtype=np.bool_),
        np.full(runs, longest, dtype=np.int64),
    )
    active = np.arange(runs)
    surviving = np.zeros((runs, longest + 1))
    surviving[:, 0] = 1.0
    wins, losses, spent = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    for pairs in range(1, longest + 1):
        step = differences[active, pairs - 1]
        _flip_where_discordant(surviving[:, : pairs + 1], np.abs(step))
        wins += step > 0
        losses += step < 0
        if not (design.looks_after(pairs) or (pairs == longest and pairs >= design.n_min)):
            continue
        budget = design.alpha * min(1.0, pairs / design.n_max) ** design.rho - spent
        critical, spending = _spend(surviving[:, : pairs + 1], np.maximum(budget, 0.0))
        spent += spending
        promoted = wins >= critical
        rejected = np.zeros_like(promoted)
        if pairs < design.n_max:
            power = conditional_power(design, pairs=pairs, wins=wins, losses=losses)
            rejected = ~promoted & (power < design.gamma)
        ends.promoted[active[promoted]] = True
        ends.rejected[active[rejected]] = True
        stopped = promoted | rejected
        ends.pairs[active[stopped]] = pairs
        going = ~stopped
        active, surviving, spent = active[going], surviving[going], spent[going]
        wins, losses = wins[going], losses[going]
    return ends


def _flip_where_discordant(surviving: NDArray[np.float64], discordant: NDArray[np.int8]) -> None:
    """Advance `[runs, k]` win distributions by one fair coin, in place, where a pair differs."""
    half = 0.5 * discordant[:, None]
    flow = surviving * half
    surviving -= flow
    surviving[:, 1:] += flow[:, :-1]


def _spend(
    surviving: NDArray[np.float64], budget: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Critical wins and alpha spent, by run; clears the rejected mass in place."""
    tails = np.cumsum(surviving[:, ::-1], axis=1)[:, ::-1]
    critical = (tails > budget[:, None]).sum(axis=1)
    rejected = np.arange(surviving.shape[1]) >= critical[:, None]
    spending = np.where(rejected, surviving, 0.0).sum(axis=1)
    surviving[rejected] = 0.0
    return critical, spending
