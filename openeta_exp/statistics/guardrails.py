"""Tests that can only block a promotion: harm, cost and one-sided crashes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openeta_exp.statistics.intervals import Interval, require_counts, tango
from openeta_exp.statistics.multiplicity import holm
from openeta_exp.statistics.paired import mcnemar_exact, mcnemar_midp, sign_tail

DRAWS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmTest:
    """A bad event, counted per episode, paired.

    Attributes:
        increase: Change of its rate, candidate minus baseline.
        interval: Tango interval of the increase, 90 %.
        p_value: One-sided mid-p, that there is no harm.
        blocks: Whether the policy in force refuses the candidate.
    """

    increase: float
    interval: Interval
    p_value: float
    blocks: bool


def credible_harm(
    candidate_only: int,
    baseline_only: int,
    *,
    pairs: int,
    alpha: float = 0.05,
    largest_increase: float = 0.10,
    pairs_for_increase: int = 20,
) -> HarmTest:
    """Block if harm is significant, or if enough pairs show a large increase.

    "The count must not rise" would block 42 % of unchanged candidates; this blocks 3 %.
    """
    increase = (candidate_only - baseline_only) / pairs if pairs else 0.0
    p_value = mcnemar_midp(candidate_only, baseline_only)
    # Counts are integers: compare without the rounding of 6 / 60 against 0.1.
    large = candidate_only - baseline_only > largest_increase * pairs + 1e-9
    return HarmTest(
        increase=increase,
        interval=tango(candidate_only, baseline_only, pairs=pairs, level=0.90),
        p_value=p_value,
        blocks=p_value <= alpha or (pairs >= pairs_for_increase and large),
    )


def non_inferiority(
    candidate_only: int, baseline_only: int, *, pairs: int, margin: float
) -> HarmTest:
    """Block unless the 90 % Tango bound proves that the increase is below the margin.

    The strict option: with 60 pairs it blocks most unchanged candidates at a margin of 0.05.
    """
    interval = tango(candidate_only, baseline_only, pairs=pairs, level=0.90)
    return HarmTest(
        increase=(candidate_only - baseline_only) / pairs if pairs else 0.0,
        interval=interval,
        p_value=mcnemar_midp(candidate_only, baseline_only),
        blocks=interval.high >= margin,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRatio:
    """Mean cost of the candidate over mean cost of the baseline.

    Attributes:
        interval: 90 % percentile interval; each end is a one-sided 95 % bound.
        seed: Of the resampling.
    """

    ratio: float
    interval: Interval
    seed: int


def cost_ratio(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    tasks: Sequence[Hashable],
    seed: int,
    replicates: int = 10_000,
) -> CostRatio | None:
    """Paired bootstrap of a cost ratio, resampling pairs within each task.

    None if the baseline's cost is zero in the sample or in some resample: no ratio then.

    Raises:
        ValueError: If a cost is negative, or if the sequences differ in length.
    """
    if not len(baseline) == len(candidate) == len(tasks):
        raise ValueError("costs and tasks are given per pair")
    base, cand = np.asarray(baseline, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    if min(base.min(initial=0.0), cand.min(initial=0.0)) < 0:
        raise ValueError("a cost is not negative")
    if base.sum() == 0:
        return None
    generator = np.random.default_rng(seed)
    base_total, cand_total = np.zeros(replicates), np.zeros(replicates)
    for members in _strata(tasks):
        # In slices, so that ten thousand pairs of one task do not ask for a gigabyte.
        slices = math.ceil(replicates * len(members) / DRAWS_AT_ONCE)
        for some in np.array_split(np.arange(replicates), slices):
            drawn = members[generator.integers(len(members), size=(len(members), len(some)))]
            base_total[some] += base[drawn].sum(axis=0)
            cand_total[some] += cand[drawn].sum(axis=0)
    if base_total.min() == 0:
        return None
    low, high = np.quantile(cand_total / base_total, [0.05, 0.95])
    ratio = float(cand.sum() / base.sum())
    return CostRatio(
        ratio=ratio,
        interval=Interval(min(float(low), ratio), max(float(high), ratio), 0.90),
        seed=seed,
    )


def _strata(tasks: Sequence[Hashable]) -> list[NDArray[np.int64]]:
    members: dict[Hashable, list[int]] = {}
    for index, task in enumerate(tasks):
        members.setdefault(task, []).append(index)
    return [np.array(indices, dtype=np.int64) for indices in members.values()]


def task_harm_p_values(counts: Sequence[tuple[int, int]]) -> tuple[float, ...]:
    """Holm-adjusted exact p-values of harm, by task, from its (wins, losses).

    With three to ten pairs a task this is a weak alarm.
    """
    return holm([mcnemar_exact(losses, wins) for wins, losses in counts])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionTest:
    """Whether lost pairs were lost evenly.

    Attributes:
        p_value: Exact, one-sided, that the candidate breaks in no more pairs than the baseline.
        excluded_share: Of all pairs that were run.
        differential: The remaining pairs cannot be trusted to speak for all.
    """

    p_value: float
    excluded_share: float
    differential: bool


def differential_exclusion(
    candidate_only: int,
    baseline_only: int,
    *,
    excluded: int,
    pairs: int,
    alpha: float = 0.05,
    largest_share: float = 0.20,
) -> ExclusionTest:
    """Test breakages by side: a crash must not excuse a candidate from judgement.

    Args:
        candidate_only, baseline_only: Pairs in which attempts of one arm alone broke. With a
            verdict in the end they count too: each further attempt is a new draw.
        excluded: Pairs that were given up.
        pairs: Valid pairs.
    """
    require_counts(candidate_only, baseline_only, pairs=excluded + pairs)
    share = excluded / (pairs + excluded) if pairs + excluded else 0.0
    p_value = sign_tail(candidate_only, candidate_only + baseline_only)
    lopsided = candidate_only > baseline_only and p_value <= alpha
    return ExclusionTest(
        p_value=p_value,
        excluded_share=share,
        differential=lopsided or share > largest_share,
    )
