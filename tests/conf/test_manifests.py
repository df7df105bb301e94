"""The shipped manifests: splits share no episode, tasks are those of the benchmark."""

from __future__ import annotations

from itertools import combinations

import pytest

from openeta_exp.composition import compose_settings
from openeta_exp.domain.manifest import Manifest, Split
from openeta_exp.embedded.simulator.env_ids import LiberoId, TabletopId, parse_env_id
from openeta_exp.embedded.simulator.tabletop.tasks import TASKS

SPLITS = {"train": Split.TRAIN, "canary": Split.CANARY, "heldout": Split.HELD_OUT}
STATES = {"libero_object": 50, "tabletop": 2**32}
"""Initial states a task has; LIBERO's are recorded, and the seed is taken modulo their number."""


def manifest(name: str) -> Manifest:
    return compose_settings([f"manifest={name}"]).read_manifest()


@pytest.mark.parametrize("suite", ["libero_object", "tabletop"])
def test_splits_share_no_initial_state(suite: str) -> None:
    places = {
        split: {
            (spec.env_id, spec.seed % STATES[suite])
            for spec in manifest(f"{suite}_{split}").episodes
        }
        for split in SPLITS
    }

    for first, second in combinations(SPLITS, 2):
        assert not places[first] & places[second]


@pytest.mark.parametrize("suite", ["libero_object", "tabletop"])
def test_splits_are_labelled_and_large_enough(suite: str) -> None:
    sizes = {"train": 10, "canary": 10, "heldout": 60}
    for name, split in SPLITS.items():
        shipped = manifest(f"{suite}_{name}")

        assert shipped.split is split
        assert len(shipped.episodes) >= sizes[name]
        assert len({(spec.env_id, spec.seed) for spec in shipped.episodes}) == len(shipped.episodes)


@pytest.mark.parametrize("name", ["tabletop_train", "tabletop_heldout", "tabletop_smoke"])
def test_tabletop_tasks_say_what_the_tabletop_checks(name: str) -> None:
    for spec in manifest(name).episodes:
        env = parse_env_id(spec.env_id)

        assert isinstance(env, TabletopId)
        assert spec.task == TASKS[env.slug].instruction


@pytest.mark.libero
@pytest.mark.parametrize("name", ["libero_object_heldout", "libero_smoke"])
def test_libero_tasks_say_what_libero_says(name: str) -> None:
    from libero.libero.benchmark import get_benchmark_dict

    suites = {"libero_object": get_benchmark_dict()["libero_object"]()}
    for spec in manifest(name).episodes:
        env = parse_env_id(spec.env_id)

        assert isinstance(env, LiberoId)
        assert spec.task == suites[env.suite].get_task(env.task_index).language
