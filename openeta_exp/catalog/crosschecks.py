"""What one file of a catalog says about another: references, uniqueness, agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from openeta_exp.wire.catalog_files import Parameter, ScenarioSet, SceneEntry, TaskEntry
from openeta_exp.wire.explain import nearest, show

RESERVED = frozenset({"perturbations"})
"""Names a scenario parameter may not have, because an episode spec uses them itself."""


@dataclass(frozen=True, slots=True)
class Crossed:
    """Findings, one sentence each."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def cross_check(
    directory: Path,
    *,
    scenes: Sequence[SceneEntry] | None,
    tasks: Sequence[TaskEntry] | None,
    scenario_sets: Sequence[ScenarioSet] | None,
) -> Crossed:
    """Compare the files that could be read; None stands for one that could not."""
    problems: list[str] = []
    warnings: list[str] = []
    if scenes is not None:
        problems += _doubled("scenes.yaml", "scenes", [scene.id for scene in scenes])
        for at, scene in enumerate(scenes):
            problems += _scene_problems(f"scenes.yaml: scenes[{at}]", scene, directory)
            warnings += _scene_warnings(f"scenes.yaml: scenes[{at}]", scene)
    if tasks is not None:
        problems += _doubled("tasks.yaml", "tasks", [task.id for task in tasks])
        for at, task in enumerate(tasks):
            problems += _task_problems(f"tasks.yaml: tasks[{at}]", task, scenes)
    if scenario_sets is not None:
        ids = [each.id for each in scenario_sets]
        problems += _doubled("scenarios.yaml", "scenario_sets", ids)
        for at, each in enumerate(scenario_sets):
            where = f"scenarios.yaml: scenario_sets[{at}]"
            problems += _set_problems(where, each, scenes=scenes, tasks=tasks)
    if scenes is not None and scenario_sets is not None:
        used = {each.scene for each in scenario_sets}
        warnings += [
            f"scenes.yaml: scenes[{at}].id = {show(scene.id)}: no scenario set uses this scene"
            for at, scene in enumerate(scenes)
            if scene.id not in used
        ]
    return Crossed(tuple(problems), tuple(warnings))


def _doubled(file: str, key: str, ids: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(ids).items():
        if count > 1:
            yield f"{file}: {key}: id {name!r} is used {count} times; give each its own"


def _scene_problems(where: str, scene: SceneEntry, directory: Path) -> Iterator[str]:
    if scene.external is None:
        reason = " (a local `model` has no adapter here)" if scene.model else ""
        yield f"{where}.external: is missing{reason}; name the adapter as external.provider"
    else:
        for name, value in scene.external.ref.items():
            given = scene.external.params.get(name, value)
            if given != value:
                yield (
                    f"{where}.external.params.{name} = {show(given)}: "
                    f"external.ref.{name} says {show(value)}; make them equal"
                )
    for index, pattern in enumerate(scene.assets):
        place = f"{where}.assets[{index}] = {pattern!r}"
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            yield f"{place}: must stay inside the catalog's directory"
        elif not any(path.is_file() for path in directory.glob(pattern)):
            yield f"{place}: matches no file in {directory}"


def _scene_warnings(where: str, scene: SceneEntry) -> Iterator[str]:
    if scene.engine_version is None:
        yield f"{where}.engine_version: is missing, so two engine versions look like one scene"
    for name in ("resource_shape", "model_hash"):
        if getattr(scene, name):
            yield f"{where}.{name}: has no effect here"
    if scene.external is not None and scene.model is not None:
        yield f"{where}.model: has no effect next to external"


def _task_problems(
    where: str, task: TaskEntry, scenes: Sequence[SceneEntry] | None
) -> Iterator[str]:
    if scenes is None:
        return
    scene = next((each for each in scenes if each.id == task.scene), None)
    if scene is None:
        known = [each.id for each in scenes]
        yield f"{where}.scene = {task.scene!r}: no such scene; {nearest(task.scene, known)}"
        return
    produced = {name for rule in scene.metrics for name in rule.produces}
    for index, threshold in enumerate(task.success.all_of if task.success else ()):
        if threshold.metric not in produced:
            hint = nearest(threshold.metric, produced) if produced else "declare it in metrics"
            yield (
                f"{where}.success.all_of[{index}].metric = {threshold.metric!r}: "
                f"scene {scene.id} does not produce it; {hint}"
            )


def _set_problems(
    where: str,
    scenario_set: ScenarioSet,
    *,
    scenes: Sequence[SceneEntry] | None,
    tasks: Sequence[TaskEntry] | None,
) -> Iterator[str]:
    unknown = scenes is not None and scenario_set.scene not in {scene.id for scene in scenes}
    if scenes is not None and unknown:
        hint = nearest(scenario_set.scene, [scene.id for scene in scenes])
        yield f"{where}.scene = {scenario_set.scene!r}: no such scene; {hint}"
    for name in scenario_set.params:
        if name in RESERVED:
            yield f"{where}.params.{name}: this name is taken; choose another"
    yield from _form_problems(where, scenario_set.generator, scenario_set.params)
    swept = [at for at, each in enumerate(scenario_set.perturbations) if each.levels]
    if len(swept) > 1:
        yield f"{where}.perturbations: only one may have levels, found {swept}"
    if tasks is None:
        return
    on_scene = [task.id for task in tasks if task.scene == scenario_set.scene]
    for at, task_id in enumerate(scenario_set.tasks):
        if task_id not in on_scene:
            hint = nearest(task_id, on_scene)
            yield f"{where}.tasks[{at}] = {task_id!r}: no such task on this scene; {hint}"
    if not on_scene and not scenario_set.tasks and not unknown:
        yield f"{where}.scene = {scenario_set.scene!r}: no task is on this scene"


def _form_problems(where: str, generator: str, params: dict[str, Parameter]) -> Iterator[str]:
    """What the known generators will refuse, found before they run."""
    samplers = ("refractal.generators:random_sample", "refractal.generators:latin_hypercube")
    if generator not in samplers:
        return
    samples = {name: spec.samples for name, spec in params.items() if spec.samples is not None}
    if not samples:
        yield f"{where}.params: {generator} needs one with range, samples and distribution"
    if len(set(samples.values())) > 1:
        yield f"{where}.params: samples must be equal for all, found {samples}"
