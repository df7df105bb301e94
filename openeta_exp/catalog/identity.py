"""Names free of labels: what a scenario, a task and a scene are, by their content.

An unperturbed scenario and a plain task hash to what Refractal 0.1.0a2 calls them, so results
can be matched across both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from openeta_exp.catalog.importing import module_name
from openeta_exp.catalog.source import find_source
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.record import digest
from openeta_exp.wire.catalog_files import SceneEntry, TaskEntry


def scenario_digest(
    params: Mapping[str, JsonValue], perturbations: Sequence[JsonValue] = ()
) -> Digest:
    """Of the values and perturbations; neither of the scene nor of the set they came from."""
    return Digest(digest({"faults": list(perturbations), "params": dict(params)}))


def task_digest(task: TaskEntry, scene: SceneEntry, search_path: Sequence[str] = ()) -> Digest:
    """Of the goal and of how success is judged; never of the task's id or description."""
    content: JsonObject = {
        "instruction": task.instruction,
        "predicate": task.predicate,
        "predicate_args": task.predicate_args,
        "max_steps": task.max_steps,
        "provider_ref": task.provider_ref,
        "phases": [phase.model_dump(mode="json") for phase in task.phases],
    }
    judges = [task.predicate, *(phase.predicate for phase in task.phases)]
    if task.success is not None:
        content["success"] = task.success.model_dump(mode="json")
        content["metrics"] = [rule.model_dump(mode="json") for rule in scene.metrics]
        judges += [rule.extractor for rule in scene.metrics]
    sources = _sources(judges, search_path)
    if sources:
        content["sources"] = sources
    return Digest(digest(content))


def scene_digest(scene: SceneEntry, *, directory: Path, search_path: Sequence[str] = ()) -> Digest:
    """Of engine, adapter, arguments, assets and the adapter's source; never of the scene's id."""
    external = scene.external
    source = external and find_source(external.provider.partition(":")[0], search_path)
    assets: JsonObject = {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in scene.assets
        for path in sorted(directory.glob(pattern))
        if path.is_file()
    }
    return Digest(
        digest(
            {
                "engine": scene.engine,
                "engine_version": scene.engine_version,
                "provider": external.provider if external else None,
                "ref": external.ref if external else {},
                "params": external.params if external else {},
                "assets": assets,
                "source": source.content_digest if source else None,
            }
        )
    )


def environment_id(scene: Digest, task: Digest) -> str:
    """The `env_id` of a catalog's episodes: the same content, whatever it is called."""
    return f"catalog/{scene[:32]}/{task[:32]}"


def _sources(import_strings: Sequence[str], search_path: Sequence[str]) -> JsonObject:
    """Source digests of the user's own judges; ours and an installed Refractal's are versioned."""
    found: JsonObject = {}
    for each in import_strings:
        module = module_name(each)
        if module.partition(".")[0] in ("openeta_exp", "refractal"):
            continue
        source = find_source(module, search_path)
        found[each] = source.content_digest if source else None
    return found
