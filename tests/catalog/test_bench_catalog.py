"""The documented adapter and catalog, as printed, on a simulator with physics."""

from __future__ import annotations

import anyio
import pytest

from openeta_exp.catalog.expansion import Tier, expand
from openeta_exp.catalog.outcomes import benchmark_evidence
from openeta_exp.catalog.reading import read_catalog
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.ports.policy import PolicyRecipe
from tests.catalog.catalogs import ARM, BENCH, evidence_of, number, policy, running

pytestmark = pytest.mark.anyio


async def test_two_policies_face_the_same_scenarios_and_one_is_better() -> None:
    expansion = expand(read_catalog(BENCH), tier=Tier.SMOKE)
    recipes = {
        "careful": policy("ShelfPolicy", module="my_package.policies"),
        "careless": policy("ShelfPolicy", module="my_package.policies", aside_m=0.02),
    }
    outcomes: dict[tuple[str, str], EpisodeOutcome] = {}

    async with running(expansion, size=2) as runner, anyio.create_task_group() as group:

        async def one(name: str, recipe: PolicyRecipe, index: int) -> None:
            spec = expansion.manifest.episodes[index]
            found = await runner.run_episode(spec, policy=recipe, arm=ARM)
            outcomes[name, str(spec.episode_id)] = found

        for name, recipe in recipes.items():
            for index in range(len(expansion.rows)):
                group.start_soon(one, name, recipe, index)

    assert all(isinstance(each, EpisodeResult) for each in outcomes.values())
    won = {
        name: sum(
            isinstance(each, EpisodeResult) and each.success
            for (owner, _), each in outcomes.items()
            if owner == name
        )
        for name in recipes
    }
    assert won["careful"] > won["careless"]
    for row in expansion.rows:
        first, second = (outcomes[name, str(row.episode_id)] for name in recipes)
        assert first.initial_state_digest == second.initial_state_digest
    assert len({each.initial_state_digest for each in outcomes.values()}) == len(expansion.rows)
    evidence = evidence_of(next(iter(outcomes.values())))
    assert set(evidence.step_records[0]) == {"step", "reward", "gripper", "object_height"}
    assert number(evidence.result["final_height"]) > 0
    assert all(benchmark_evidence(each) is not None for each in outcomes.values())
