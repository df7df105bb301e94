"""How a lineage divides its held-out episodes, in words."""

from __future__ import annotations

from bisect import bisect_left

from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import Terms
from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.engine.draws import HeldOutPool
from openeta_exp.engine.lineage_plan import LANES, LineagePlan
from openeta_exp.statistics.best_case import best_case


def division(plan: LineagePlan, terms: Terms) -> str:
    """Who gets which part of the held-out episodes, and how many of them the gate needs."""
    pool = HeldOutPool.of(plan)
    users = (
        f"{counted(plan.comparisons, 'comparison')} "
        f"({counted(plan.generations, 'generation')} of {counted(len(LANES), 'lane')})"
    )
    if plan.confirmation_pairs:
        users += f" and a confirmation (lineage.confirmation_pairs = {plan.confirmation_pairs})"
    return (
        f"the {counted(sum(pool.sizes.values()), 'held-out episode')} of "
        f"{counted(len(pool.sizes), 'task')} are divided among {users}, which leaves "
        f"{counted(pool.pairs, 'pair')} for one comparison; {_what_would_do(plan, pool, terms)}"
    )


def _what_would_do(plan: LineagePlan, pool: HeldOutPool, terms: Terms) -> str:
    def promotes(each: int) -> bool:
        asked = _pool(plan, each)
        return best_case(plan.gate, pairs=asked.pairs, tasks=asked.tasks, terms=terms).promotes

    # With so many, every comparison gets all that its gate can use.
    most = (pool.needed + 1) * (plan.comparisons + 1)
    if not promotes(most):
        return "more episodes of these tasks would not do either"
    each = bisect_left(range(most), True, lo=1, key=promotes)
    tasks = len(pool.sizes)
    return (
        f"{counted(each * tasks, 'held-out episode')} would do, {each} of each task, and fewer "
        "with fewer lineage.generations"
    )


def _pool(plan: LineagePlan, each: int) -> HeldOutPool:
    """What there would be to draw from with so many episodes of each task, without repeats."""
    tasks = {(spec.env_id, spec.task): spec.scenario for spec in plan.held_out.episodes}
    episodes = tuple(
        EpisodeSpec(
            episode_id=EpisodeId(f"{number}-{seed}"),
            env_id=env_id,
            task=task,
            seed=seed,
            scenario=scenario,
        )
        for number, ((env_id, task), scenario) in enumerate(tasks.items())
        for seed in range(each)
    )
    return HeldOutPool.shared(
        Manifest(episodes=episodes),
        gate=plan.gate,
        comparisons=plan.comparisons,
        confirms=plan.confirmation_pairs > 0,
    )
