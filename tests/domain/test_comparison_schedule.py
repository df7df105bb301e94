from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.pair import PairKey, Side
from openeta_exp.domain.schedule import fresh_seed, interleave, pool_share
from openeta_exp.errors import ManifestError


def keys(tasks: int, *, each: int, reps: int = 1) -> list[PairKey]:
    return [
        PairKey(env_id="table", task_id=f"task-{task}", seed=seed, rep=rep)
        for task in range(tasks)
        for seed in range(each)
        for rep in range(reps)
    ]


@given(st.integers(1, 6), st.integers(1, 6), st.text(max_size=5))
def test_every_block_holds_every_task_once(tasks: int, each: int, salt: str) -> None:
    slots = interleave(keys(tasks, each=each), salt=salt).slots

    for block in range(each):
        seen = {slot.key.task_id for slot in slots[block * tasks : (block + 1) * tasks]}
        assert len(seen) == tasks


def test_the_order_of_the_keys_given_does_not_matter() -> None:
    some = keys(3, each=4)

    assert interleave(some, salt="s") == interleave(some[::-1], salt="s")


def test_another_salt_gives_another_order_and_another_digest() -> None:
    some = keys(5, each=8)

    one, other = interleave(some, salt="1"), interleave(some, salt="2")

    assert one.content_digest != other.content_digest
    assert {slot.key for slot in one.slots} == {slot.key for slot in other.slots}


def test_about_half_of_the_pairs_run_the_candidate_first() -> None:
    slots = interleave(keys(20, each=20), salt="coin").slots

    first = Counter(slot.first for slot in slots)

    # Five standard deviations of a fair coin.
    assert abs(first[Side.CANDIDATE] - 200) < 50


def test_tasks_are_shuffled_anew_in_every_block() -> None:
    slots = interleave(keys(5, each=10), salt="s").slots

    orders = {tuple(slot.key.task_id for slot in slots[at : at + 5]) for at in range(0, 50, 5)}

    assert len(orders) > 5


def test_repeats_come_after_all_fresh_keys() -> None:
    slots = interleave(keys(3, each=2, reps=2), salt="s").slots

    assert [slot.key.rep for slot in slots] == [0] * 6 + [1] * 6


def test_tasks_with_more_keys_fill_the_last_blocks_alone() -> None:
    some = [*keys(1, each=5), *(each for each in keys(2, each=2) if each.task_id == "task-1")]

    slots = interleave(some, salt="s").slots

    assert Counter(slot.key.task_id for slot in slots[:4]) == {"task-0": 2, "task-1": 2}
    assert len(slots) == 7


def test_a_key_given_twice_is_refused_by_name() -> None:
    [one] = keys(1, each=1)

    with pytest.raises(ManifestError, match=re.escape(str(one))):
        interleave([one], salt="s", reserves=[one])


def test_seeds_are_fresh_for_every_generation_task_and_index() -> None:
    seeds = {
        fresh_seed("secret", generation=generation, task_id=task, index=index)
        for generation in range(5)
        for task in ("a", "b")
        for index in range(20)
    }

    assert len(seeds) == 200
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert fresh_seed("s", generation=0, task_id="a", index=0) != fresh_seed(
        "t", generation=0, task_id="a", index=0
    )


def test_a_fixed_pool_is_parted_without_overlap_until_it_runs_out() -> None:
    shares = [
        pool_share(range(50), generation=generation, per_generation=12, secret="s")
        for generation in range(6)
    ]

    assert [len(share) for share in shares] == [12, 12, 12, 12, 2, 0]
    assert sorted(seed for share in shares for seed in share) == list(range(50))
