"""Catalogs of the toy world, written to disk as a user would, and a way to run them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from openeta_exp.catalog.expansion import Expansion, expand
from openeta_exp.catalog.messages import BenchmarkEvidence
from openeta_exp.catalog.outcomes import benchmark_evidence
from openeta_exp.catalog.pool import WorkerPool
from openeta_exp.catalog.reading import Catalog, read_catalog
from openeta_exp.catalog.runner import CatalogRunner
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.identity import Digest
from openeta_exp.ports.policy import PolicyRecipe
from tests.manual_clock import ManualClock

BENCH = Path(__file__).parents[1] / "fixtures" / "bench_catalog"
ARM = Digest("a" * 64)

SCENE: dict[str, Any] = {
    "id": "toy",
    "engine": "none",
    "engine_version": "1",
    "external": {"provider": "tests.catalog.toy_bench:Reach", "params": {}},
}
TASK: dict[str, Any] = {
    "id": "reach",
    "scene": "toy",
    "instruction": "reach the middle",
    "predicate": "refractal.predicates:from_benchmark",
    "provider_ref": {"task_id": 0},
    "max_steps": 40,
}
SCENARIOS: dict[str, Any] = {
    "id": "starts",
    "scene": "toy",
    "generator": "refractal.generators:linspace_grid",
    "generator_seed": 0,
    "params": {
        "x": {"range": [-0.8, 0.8], "steps": 3},
        "y": {"range": [0.2, 0.6], "steps": 2},
    },
}


def write_catalog(
    directory: Path,
    *,
    provider: str = "Reach",
    params: Mapping[str, Any] | None = None,
    scene: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
    scenarios: Mapping[str, Any] | None = None,
) -> Path:
    """Three files, with the given keys changed; JSON is YAML."""
    external = {"provider": f"tests.catalog.toy_bench:{provider}", "params": dict(params or {})}
    content = {
        "scenes.yaml": {"scenes": [{**SCENE, "external": external, **(scene or {})}]},
        "tasks.yaml": {"tasks": [{**TASK, **(task or {})}]},
        "scenarios.yaml": {"scenario_sets": [{**SCENARIOS, **(scenarios or {})}]},
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in content.items():
        (directory / name).write_text(json.dumps(value), encoding="utf-8")
    return directory


def toy(directory: Path, **changes: Any) -> Expansion:
    return expand(toy_catalog(directory, **changes))


def toy_catalog(directory: Path, **changes: Any) -> Catalog:
    return read_catalog(write_catalog(directory, **changes))


def policy(
    name: str = "Homing", *, module: str = "tests.catalog.toy_policies", **params: Any
) -> PolicyRecipe:
    return PolicyRecipe(
        factory="openeta_exp.adapters.policy.in_process:build",
        arguments={"target": f"{module}:{name}", "params": params},
    )


def evidence_of(outcome: EpisodeOutcome) -> BenchmarkEvidence:
    evidence = benchmark_evidence(outcome)
    assert evidence is not None
    return evidence


def number(value: JsonValue) -> float:
    assert isinstance(value, int | float)
    return float(value)


def numbers(value: JsonValue) -> list[float]:
    assert isinstance(value, list)
    return [number(each) for each in value]


def runner_on(pool: WorkerPool, expansion: Expansion, **options: Any) -> CatalogRunner:
    """Episodes of a toy catalog on a pool that is there already."""
    return CatalogRunner(expansion, pool, clock=ManualClock(), **options)


@asynccontextmanager
async def running(
    expansion: Expansion, *, size: int = 1, interpreter: str | None = None, **options: Any
) -> AsyncIterator[CatalogRunner]:
    async with WorkerPool(
        size=size, interpreter=interpreter, search_path=expansion.search_path
    ) as pool:
        yield CatalogRunner(expansion, pool, clock=ManualClock(), **options)
