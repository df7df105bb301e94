"""Held-out episodes are shared out once: nobody sees those of another comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openeta_exp.domain.budget import Budget
from openeta_exp.domain.gate import AnytimeGate, Gate, NoRegressionGate, SequentialGate
from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.pair import PairKey
from openeta_exp.engine.draws import (
    Draw,
    HeldOutPool,
    draw_canary,
    draw_confirmation,
    draw_held_out,
    draw_train_side,
)
from openeta_exp.engine.lineage_plan import LineagePlan
from openeta_exp.engine.observe_arm import pair_key
from tests.generations import plan

GATES: tuple[Gate, ...] = (
    SequentialGate(n_min=4, n_max=60),
    SequentialGate(n_min=4, n_max=7),
    NoRegressionGate(strategy=None),
)
POOLS = st.lists(st.integers(min_value=1, max_value=150), min_size=1, max_size=6)


def lineage_plan(
    sizes: list[int], *, gate: Gate, generations: int = 3, confirmation_pairs: int = 20
) -> LineagePlan:
    """With so many held-out episodes of each task."""
    held_out = Manifest(
        episodes=tuple(
            EpisodeSpec(
                episode_id=EpisodeId(f"task-{task}-{seed}"),
                env_id=f"openeta/tabletop_pick_{task}-v0",
                task=f"pick up object {task}",
                seed=seed,
            )
            for task, size in enumerate(sizes)
            for seed in range(size)
        )
    )
    planned = plan(generations=generations, gate=gate)
    return replace(planned, held_out=held_out, confirmation_pairs=confirmation_pairs)


def drawn(of: LineagePlan) -> list[Draw]:
    """Of every comparison there can be, the confirmation last."""
    candidates = [draw_held_out(of, turn=turn) for turn in range(of.comparisons)]
    return [*candidates, draw_confirmation(of)]


@given(
    sizes=POOLS,
    gate=st.sampled_from(GATES),
    generations=st.integers(min_value=1, max_value=4),
    confirmation_pairs=st.integers(min_value=1, max_value=80),
)
@example(sizes=[120] * 10, gate=SequentialGate(), generations=3, confirmation_pairs=20)
@example(sizes=[100, 2], gate=SequentialGate(), generations=2, confirmation_pairs=8)
def test_no_episode_is_drawn_for_two_comparisons(
    sizes: list[int], gate: Gate, generations: int, confirmation_pairs: int
) -> None:
    planned = lineage_plan(
        sizes, gate=gate, generations=generations, confirmation_pairs=confirmation_pairs
    )

    ids = [spec.episode_id for draw in drawn(planned) for spec in draw.specs]

    assert len(ids) == len(set(ids))


@given(sizes=POOLS, gate=st.sampled_from(GATES), confirmation_pairs=st.sampled_from([0, 20]))
@example(sizes=[100, 2], gate=SequentialGate(), confirmation_pairs=20)
def test_what_the_preflight_counts_on_is_there_in_every_comparison(
    sizes: list[int], gate: Gate, confirmation_pairs: int
) -> None:
    planned = lineage_plan(sizes, gate=gate, confirmation_pairs=confirmation_pairs)
    pool = HeldOutPool.of(planned)

    slots = [draw.schedule.slots for draw in drawn(planned)[: planned.comparisons]]

    assert all(len(each) >= pool.pairs for each in slots)
    assert all(len({pair.key.task_id for pair in each}) >= pool.tasks for each in slots)
    if isinstance(gate, NoRegressionGate):
        assert len(slots[-1]) == pool.pairs


def test_a_task_with_many_episodes_does_not_make_up_for_one_with_few() -> None:
    planned = lineage_plan([100, 2], gate=SequentialGate(n_min=20, n_max=24), generations=2)

    assert len(planned.held_out.episodes) // (planned.comparisons + 1) == 20
    assert HeldOutPool.of(planned).pairs == 12
    assert HeldOutPool.of(planned).tasks == 1


def test_a_confirmation_may_be_larger_than_what_a_candidate_gets() -> None:
    planned = lineage_plan([150, 150], gate=SequentialGate(n_min=4, n_max=7), confirmation_pairs=80)

    assert len(draw_confirmation(planned).schedule.slots) == 80


def repeated(sizes: list[int], *, repeats: int, gate: Gate) -> LineagePlan:
    """The same with every held-out episode several times."""
    planned = lineage_plan(sizes, gate=gate)
    rows = [
        spec.model_copy(
            update={"episode_id": EpisodeId(f"{spec.episode_id}.{repeat}"), "repeat": repeat}
        )
        for spec in planned.held_out.episodes
        for repeat in range(repeats)
    ]
    return replace(planned, held_out=Manifest(episodes=tuple(rows)))


@given(
    sizes=POOLS,
    repeats=st.integers(min_value=1, max_value=3),
    gate=st.sampled_from([AnytimeGate(n_max=60), NoRegressionGate(strategy=None)]),
)
def test_an_episode_and_its_repeats_are_fresh_for_one_comparison_only(
    sizes: list[int], repeats: int, gate: Gate
) -> None:
    planned = repeated(sizes, repeats=repeats, gate=gate)

    draws = drawn(planned)

    seen: set[PairKey] = set()
    for draw in draws:
        units = {pair_key(spec).unit for spec in draw.specs}
        assert not units & seen
        seen |= units
        assert len(draw.specs) == len(units) * (1 if draw is draws[-1] else repeats)
    pool = HeldOutPool.of(planned)
    longest = max(len(draw.schedule.slots) for draw in draws[:-1])
    assert pool.pairs <= pool.runs <= longest


def test_an_agent_is_compared_with_itself_also_on_rows_that_are_alike() -> None:
    planned = plan(train=2)
    [first, second] = planned.train.episodes
    short = first.model_copy(
        update={"episode_id": EpisodeId("short"), "budget": Budget(max_turns=9)}
    )
    again = first.model_copy(update={"episode_id": EpisodeId("again"), "repeat": 1})
    train = Manifest(episodes=(first, second, short, again))

    draw = draw_train_side(replace(planned, train=train, flakiness_pairs=9))

    assert len(draw.schedule.slots) == 9
    assert sorted(spec.repeat - 10_000 for spec in draw.specs if spec.seed == first.seed) == [
        *range(7)
    ]


@pytest.mark.parametrize("repeats", [(0,), (0, 1, 2, 3), (0, 5), (2,)])
def test_no_canary_runs_a_repeat_that_an_earlier_one_has_run(repeats: tuple[int, ...]) -> None:
    planned = plan(generations=4)
    rows = [
        spec.model_copy(update={"episode_id": EpisodeId(f"{spec.episode_id}.{at}"), "repeat": at})
        for spec in planned.canary.episodes
        for at in repeats
    ]
    planned = replace(planned, canary=Manifest(episodes=tuple(rows)))

    turns = range(1, 1 + planned.comparisons)
    keys = [pair_key(spec) for turn in turns for spec in draw_canary(planned, turn=turn).specs]

    assert len(keys) == planned.comparisons * len(rows)
    assert len(set(keys)) == len(keys)


def test_canaries_without_repeats_count_them_from_one() -> None:
    """As journals of earlier versions have it."""
    drawn_repeats = [
        {spec.repeat for spec in draw_canary(plan(), turn=turn).specs} for turn in (1, 2, 3)
    ]

    assert drawn_repeats == [{1}, {2}, {3}]
