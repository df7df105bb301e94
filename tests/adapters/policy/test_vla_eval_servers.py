"""A vla-eval server of any version drives an adapter to the very episodes its model does here."""

from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.catalog.messages import BenchmarkEvidence
from openeta_exp.ports.policy import PolicyRecipe
from tests.adapters.policy.vla_eval_servers import environment, real_server
from tests.catalog.catalogs import ARM, evidence_of, policy, running, toy

pytestmark = [pytest.mark.anyio, pytest.mark.vla_eval]

_ADAPTERS = "openeta_exp.adapters.policy"


async def episodes(directory: Path, recipe: PolicyRecipe) -> list[BenchmarkEvidence]:
    expansion = toy(directory)
    async with running(expansion) as runner:
        outcomes = [
            await runner.run_episode(spec, policy=recipe, arm=ARM)
            for spec in expansion.manifest.episodes
        ]
    # Latency is the only thing that may differ.
    return [evidence_of(each).model_copy(update={"latency": None}) for each in outcomes]


@pytest.mark.parametrize("chunk_size", [None, 3])
@pytest.mark.parametrize("version", ["0.6.0", "0.7.0", "0.8.0"])
async def test_episodes_are_bit_identical_to_those_of_the_model_in_process(
    tmp_path: Path, version: str, chunk_size: int | None
) -> None:
    here = PolicyRecipe(
        factory=f"{_ADAPTERS}.model_server:build",
        arguments={
            "target": "tests.adapters.policy.noisy_model:NoisyHoming",
            "params": {"chunk_size": chunk_size},
        },
    )
    in_process = await episodes(tmp_path, here)
    with real_server(version, chunk_size=chunk_size) as url:
        there = PolicyRecipe(factory=f"{_ADAPTERS}.vla_eval_client:build", arguments={"url": url})
        served = await episodes(tmp_path, there)

    assert all(each.step_records for each in in_process)
    assert len({each.steps for each in in_process}) > 1
    assert served == in_process


async def test_an_adapter_on_the_installed_package_runs_as_on_the_stand_in(tmp_path: Path) -> None:
    expansion = toy(tmp_path)
    reports = {}
    for name, python in {"stand-in": None, "0.8.0": str(environment("0.8.0"))}.items():
        async with running(expansion, interpreter=python) as runner:
            env_id = expansion.manifest.episodes[0].env_id
            assert (await runner.describe_adapter(env_id)).api == name
            outcome = await runner.run_episode(
                expansion.manifest.episodes[0], policy=policy(), arm=ARM
            )
            reports[name] = evidence_of(outcome).model_copy(update={"latency": None})

    assert reports["stand-in"] == reports["0.8.0"]
