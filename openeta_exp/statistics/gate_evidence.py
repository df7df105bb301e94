"""What a paired comparison says, before any rule is applied to it."""

from __future__ import annotations

import math
from collections import Counter

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.gate import Flakiness, Guardrails
from openeta_exp.domain.pair import PairObservation, Side
from openeta_exp.domain.verdict import Bounds, Effect, Exclusions, TaskEffect
from openeta_exp.statistics.e_values import anytime_interval
from openeta_exp.statistics.guardrails import differential_exclusion, task_harm_p_values
from openeta_exp.statistics.intervals import Interval, liddell, tango
from openeta_exp.statistics.no_regression import identical_pass_probability
from openeta_exp.statistics.paired import mcnemar_exact
from openeta_exp.statistics.posterior import posterior


def bounds(interval: Interval) -> Bounds:
    return Bounds(low=interval.low, high=interval.high, level=interval.level)


def effect_of(comparison: PairedComparison, *, delta_min: float) -> Effect:
    """Estimate and intervals from the valid pairs; `delta_min` is the smallest gain that matters.

    Also the form of a confirmation run, which decides nothing.
    """
    pairs, wins, losses = len(comparison.pairs), len(comparison.improved), len(comparison.regressed)
    ratio = liddell(wins, losses)
    belief = posterior(wins, losses, pairs=pairs, delta_min=delta_min)
    return Effect(
        pairs=pairs,
        wins=wins,
        losses=losses,
        both=len(comparison.tied_success),
        neither=len(comparison.tied_failure),
        difference=(wins - losses) / pairs if pairs else 0.0,
        tango_95=bounds(tango(wins, losses, pairs=pairs)),
        tango_90=bounds(tango(wins, losses, pairs=pairs, level=0.90)),
        anytime_95=bounds(anytime_interval(wins, losses, pairs=pairs)),
        win_ratio=wins / losses if losses else None,
        win_ratio_low=ratio.low,
        win_ratio_high=ratio.high if math.isfinite(ratio.high) else None,
        superior_probability=belief.superior,
        worthwhile_probability=belief.worthwhile,
        posterior_mean=belief.mean,
    )


def task_effects(comparison: PairedComparison) -> tuple[TaskEffect, ...]:
    """The effect on every task, in order of first appearance."""
    by_task: dict[str, list[int]] = {}
    for pair in comparison.pairs:
        by_task.setdefault(pair.key.task_id, []).append(pair.difference)
    counts = [(seen.count(1), seen.count(-1)) for seen in by_task.values()]
    return tuple(
        TaskEffect(
            task_id=task,
            pairs=len(seen),
            wins=wins,
            losses=losses,
            difference=(wins - losses) / len(seen),
            tango_90=bounds(tango(wins, losses, pairs=len(seen), level=0.90)),
            harm_p=harm_p,
        )
        for (task, seen), (wins, losses), harm_p in zip(
            by_task.items(), counts, task_harm_p_values(counts), strict=True
        )
    )


def exclusions_of(comparison: PairedComparison, *, limits: Guardrails) -> Exclusions:
    """Who lost which pairs, and the comparison in the candidate's worst case.

    Pairs that were solved at reset are counted apart, and no share of what broke.
    """
    sides = Counter((pair.baseline.broke, pair.candidate.broke) for pair in comparison.broken)
    wins, losses = len(comparison.improved), len(comparison.regressed)
    worst_losses = losses + sum(_loses_by_crashing(pair) for pair in comparison.broken)
    tried = Counter(
        (pair.baseline.ever_broke, pair.candidate.ever_broke)
        for pair in comparison.observations
        if not pair.solved_at_reset
    )
    test = differential_exclusion(
        tried[False, True],
        tried[True, False],
        excluded=len(comparison.broken),
        pairs=len(comparison.pairs),
        alpha=limits.exclusion_alpha,
        largest_share=limits.largest_excluded_share,
    )
    return Exclusions(
        baseline_only=sides[True, False],
        candidate_only=sides[False, True],
        both=sides[True, True],
        solved_at_reset=len(comparison.excluded) - len(comparison.broken),
        candidate_breaks=tried[False, True],
        baseline_breaks=tried[True, False],
        share=test.excluded_share,
        p_value=test.p_value,
        differential=test.differential,
        classes=_classes(comparison),
        worst_case_wins=wins,
        worst_case_losses=worst_losses,
        worst_case_p=mcnemar_exact(wins, worst_losses),
    )


def _loses_by_crashing(pair: PairObservation) -> bool:
    return pair.candidate.broke and pair.baseline.objective_success


def _classes(comparison: PairedComparison) -> dict[str, int]:
    reasons = (
        f"{side}:{pair.arm(side).failure_class or pair.arm(side).status}"
        for pair in comparison.excluded
        for side in Side
        if not pair.arm(side).has_verdict
    )
    return dict(sorted(Counter(reasons).items()))


def identical_agent_passes(effect: Effect, *, flakiness: Flakiness | None) -> float | None:
    """Chance that "no episode got worse" would promote an identical agent on so many pairs.

    From the measured flakiness, or else from the comparison itself; None without pairs.
    """
    if effect.pairs == 0:
        return None
    if flakiness is not None:
        rate, discordance = flakiness.success_rate, flakiness.discordance
    else:
        discordance = (effect.wins + effect.losses) / effect.pairs
        rate = effect.both / effect.pairs + discordance / 2
    return identical_pass_probability(
        effect.pairs,
        loss_rate=discordance / 2,
        neither_rate=max(0.0, 1 - rate - discordance / 2),
    )
