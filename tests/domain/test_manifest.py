"""Manifests: selections, overlaps, and a canary made of seeds that nobody else uses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec, Manifest, Split, other_seeds, overlap


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

    canary = other_seeds(train, unlike=[held_out], at_least=2, at_most=10)

    assert places(canary) == [("can", 2), ("box", 1)]
    assert [spec.task for spec in canary.episodes] == ["pick can", "pick box"]
    assert canary.split is Split.CANARY


def test_a_made_canary_takes_more_seeds_where_there_are_few_tasks() -> None:
    canary = other_seeds(manifest(("can", 0), ("box", 1)), unlike=[], at_least=3, at_most=10)

    assert places(canary) == [("can", 1), ("box", 0), ("can", 2)]


def test_a_made_canary_stays_small_where_there_are_many_tasks() -> None:
    train = manifest(*((f"task-{at}", 0) for at in range(40)))

    assert len(other_seeds(train, unlike=[], at_least=2, at_most=10).episodes) == 10
    assert len(other_seeds(train, unlike=[], at_least=12, at_most=10).episodes) == 12


def test_episodes_that_differ_in_their_scenario_only_do_not_overlap() -> None:
    first = manifest(("cup", 0))
    (spec,) = first.episodes
    moved = Manifest(episodes=(spec.model_copy(update={"scenario": {"cup_x": 0.1}}),))

    assert overlap(first, first) == (("e0", "e0"),)
    assert overlap(first, moved) == ()


PLACES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, unique=True)


@given(train=PLACES, held_out=PLACES, at_least=st.integers(1, 6))
def test_a_made_canary_never_overlaps(
    train: list[tuple[str, int]], held_out: list[tuple[str, int]], at_least: int
) -> None:
    first, second = manifest(*train), manifest(*held_out)

    canary = other_seeds(first, unlike=[second], at_least=at_least, at_most=10)

    assert not overlap(canary, first)
    assert not overlap(canary, second)
    assert len(canary.episodes) >= at_least
    assert {spec.env_id for spec in canary.episodes} <= {spec.env_id for spec in first.episodes}
