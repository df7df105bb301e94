"""A planner's manifest for policies: the embedded environments as scenes with one task each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from openeta_exp.catalog.expansion import Binding, Expansion, ScenarioRow
from openeta_exp.catalog.identity import scenario_digest, scene_digest, task_digest
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.errors import CatalogError
from openeta_exp.wire.catalog_files import External, SceneEntry, TaskEntry

PROVIDER = "openeta_exp.embedded.benchmarks.simulators:SimulatorBenchmark"
_SEED = "seed"


def expand_manifest(
    manifest: Manifest,
    *,
    max_steps: int = 300,
    cameras: Sequence[str] = ("agentview",),
    image_size: int = 128,
    privileged: bool = False,
) -> Expansion:
    """The very episodes of a manifest, ready for a policy.

    The specs are not touched, so a planner's outcomes and a policy's pair by episode, and both
    start from the state their seed selects.

    Args:
        max_steps: Control steps of one episode, 20 a second.

    Raises:
        CatalogError: An environment is not an embedded one.
    """
    foreign = sorted(
        {spec.env_id for spec in manifest.episodes if not spec.env_id.startswith("openeta/")}
    )
    if foreign:
        raise CatalogError(f"policies cannot run on {foreign}; embedded ids begin with openeta/")
    params: JsonObject = {
        "cameras": list(cameras),
        "image_size": image_size,
        "privileged": privileged,
    }
    bindings = {
        spec.env_id: _binding(spec, params, max_steps=max_steps) for spec in manifest.episodes
    }
    return Expansion(
        manifest=manifest,
        rows=tuple(_row(spec) for spec in manifest.episodes),
        bindings=bindings,
        warnings=(),
        search_path=(str(Path.cwd()), *sys.path[:1]),
    )


def _binding(spec: EpisodeSpec, params: JsonObject, *, max_steps: int) -> Binding:
    scene = SceneEntry(
        id="embedded",
        engine="mujoco",
        external=External(
            provider=PROVIDER,
            params={**params, "env_id": spec.env_id, "instruction": spec.task},
        ),
    )
    task = TaskEntry(
        id="embedded",
        scene="embedded",
        instruction=spec.task,
        predicate="refractal.predicates:from_benchmark",
        max_steps=max_steps,
    )
    return Binding(
        scene=scene,
        task=task,
        scene_digest=scene_digest(scene, directory=Path.cwd()),
        task_digest=task_digest(task, scene),
        seed_parameter=_SEED,
    )


def _row(spec: EpisodeSpec) -> ScenarioRow:
    params: JsonObject = {**spec.scenario, _SEED: spec.seed}
    exact = scenario_digest(params)
    return ScenarioRow(
        episode_id=spec.episode_id,
        env_id=spec.env_id,
        scene_id=spec.env_id,
        task_id=spec.task,
        scenario_set_id="manifest",
        scenario_digest=exact,
        base_scenario_digest=exact,
        params=params,
        repeat=spec.repeat,
    )
