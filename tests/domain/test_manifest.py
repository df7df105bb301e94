"""Manifests: selections, overlaps, and a canary made of seeds that nobody else uses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import (
    EpisodeSpec,
    Manifest,
    Split,
    canonical_env_id,
    other_seeds,
    overlap,
)
from openeta_exp.errors import ManifestError


def manifest(*places: tuple[str, int]) -> Manifest:
    return Manifest(
        episodes=tuple(
            EpisodeSpec(episode_id=EpisodeId(f"e{at}"), env_id=task, task=f"pick {task}", seed=seed)
            for at, (task, seed) in enumerate(places)
        )
    )


def places(of: Manifest) -> list[tuple[str, int]]:
    return [(spec.env_id, spec.seed) for spec in of.episodes]


def test_a_made_canary_has_each_task_once_at_the_smallest_free_seed() -> None:
    train = manifest(("can", 0), ("box", 0), ("can", 1))
    held_out = manifest(*(("can", seed) for seed in range(3, 9)))

    canary = other_seeds(train, unlike=[held_out], states={}, at_least=2, at_most=10)

    assert places(canary) == [("can", 2), ("box", 1)]
    assert [spec.task for spec in canary.episodes] == ["pick can", "pick box"]
    assert canary.split is Split.CANARY


def test_a_made_canary_takes_more_seeds_where_there_are_few_tasks() -> None:
    train = manifest(("can", 0), ("box", 1))

    canary = other_seeds(train, unlike=[], states={}, at_least=3, at_most=10)

    assert places(canary) == [("can", 1), ("box", 0), ("can", 2)]


def test_a_made_canary_stays_small_where_there_are_many_tasks() -> None:
    train = manifest(*((f"task-{at}", 0) for at in range(40)))

    for at_least, length in ((2, 10), (12, 12)):
        canary = other_seeds(train, unlike=[], states={}, at_least=at_least, at_most=10)
        assert len(canary.episodes) == length


@pytest.mark.parametrize("changed", [{}, {"task": "get the cup"}, {"scenario": {"cup_x": 0.1}}])
def test_neither_words_nor_a_scenario_make_another_place(changed: dict[str, object]) -> None:
    first = manifest(("cup", 0))
    (spec,) = first.episodes
    other = spec.model_copy(update=changed)

    assert overlap(first, Manifest(episodes=(other,)), states={}) == ((spec, other),)


def test_seeds_that_select_one_initial_state_overlap_and_other_environments_keep_theirs() -> None:
    first = manifest(("soup", 0), ("soup", 3), ("can", 0))
    second = manifest(("soup", 49), ("soup", 53), ("can", 50))

    assert overlap(first, second, states={"soup": 50}) == ((first.episodes[1], second.episodes[1]),)
    assert overlap(first, second, states={"soup": 10, "can": 50}) == (
        (first.episodes[1], second.episodes[1]),
        (first.episodes[2], second.episodes[2]),
    )
    assert overlap(first, second, states={}) == ()


def test_a_made_canary_starts_from_initial_states_that_are_left() -> None:
    train, held_out = manifest(("soup", 0)), manifest(*(("soup", seed) for seed in range(51, 58)))

    canary = other_seeds(train, unlike=[held_out], states={"soup": 10}, at_least=2, at_most=10)

    assert places(canary) == [("soup", 8), ("soup", 9)]


def test_a_canary_is_not_made_of_initial_states_that_are_in_use() -> None:
    train = manifest(*(("soup", seed) for seed in range(9)))

    with pytest.raises(ManifestError, match="each of the 10 initial states of soup is in use"):
        other_seeds(
            train, unlike=[manifest(("soup", 19))], states={"soup": 10}, at_least=1, at_most=10
        )


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("openeta/libero_libero_object_task00-v0", "openeta/libero_libero_object_task0-v0"),
        ("openeta/libero_libero_90_task007-v0", "openeta/libero_libero_90_task7-v0"),
        ("openeta/libero_libero_90_task70-v0", "openeta/libero_libero_90_task70-v0"),
        ("openeta/libero_libero_10_task0-v0", "openeta/libero_libero_10_task0-v0"),
        ("gym/libero_task00-v0", "gym/libero_task00-v0"),
        ("openeta/tabletop_task00-v0", "openeta/tabletop_task00-v0"),
    ],
)
def test_a_libero_task_has_one_spelling(text: str, spelling: str) -> None:
    assert canonical_env_id(text) == spelling


PLACES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, unique=True)


@given(
    train=PLACES,
    held_out=PLACES,
    at_least=st.integers(1, 6),
    states=st.dictionaries(st.sampled_from("abc"), st.integers(20, 50)),
)
def test_a_made_canary_never_overlaps(
    train: list[tuple[str, int]],
    held_out: list[tuple[str, int]],
    at_least: int,
    states: dict[str, int],
) -> None:
    first, second = manifest(*train), manifest(*held_out)

    canary = other_seeds(first, unlike=[second], states=states, at_least=at_least, at_most=10)

    assert not overlap(canary, first, states=states)
    assert not overlap(canary, second, states=states)
    assert len(canary.episodes) >= at_least
    assert {spec.env_id for spec in canary.episodes} <= {spec.env_id for spec in first.episodes}
