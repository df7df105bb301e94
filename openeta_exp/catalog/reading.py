"""A directory with the three files -> `Catalog`, or every mistake in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openeta_exp.catalog.crosschecks import cross_check
from openeta_exp.errors import CatalogError
from openeta_exp.wire.catalog_files import (
    ScenarioSet,
    ScenariosFile,
    SceneEntry,
    ScenesFile,
    TaskEntry,
    TasksFile,
)
from openeta_exp.wire.catalog_parsing import parse_catalog_file

_INERT_FILES = {
    "run.yaml": "policies, repeats and tier are settings of the command",
    "hardware.yaml": "the number of workers is a setting of the command",
    "build.lock": "nothing has to be built before a catalog runs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Scenes, tasks and scenario sets that fit together.

    Attributes:
        directory: Where the files are; assets and local modules are looked up there first.
        warnings: What is not wrong but has no effect, or probably not the intended one.
    """

    directory: Path
    scenes: tuple[SceneEntry, ...]
    tasks: tuple[TaskEntry, ...]
    scenario_sets: tuple[ScenarioSet, ...]
    warnings: tuple[str, ...]

    def scene(self, scene_id: str) -> SceneEntry:
        return next(each for each in self.scenes if each.id == scene_id)

    def task(self, task_id: str) -> TaskEntry:
        return next(each for each in self.tasks if each.id == task_id)

    def tasks_of(self, scenario_set: ScenarioSet) -> tuple[TaskEntry, ...]:
        return tuple(
            task
            for task in self.tasks
            if task.scene == scenario_set.scene
            and (not scenario_set.tasks or task.id in scenario_set.tasks)
        )


def read_catalog(directory: Path) -> Catalog:
    """Read scenes.yaml, tasks.yaml and scenarios.yaml.

    Raises:
        CatalogError: With one sentence per mistake: file, field, value and fix.
    """
    if not directory.is_dir():
        raise CatalogError(f"catalog.path = {str(directory)!r}: there is no such directory")
    problems: list[str] = []
    scenes = parse_catalog_file(directory / "scenes.yaml", ScenesFile, problems)
    tasks = parse_catalog_file(directory / "tasks.yaml", TasksFile, problems)
    sets = parse_catalog_file(directory / "scenarios.yaml", ScenariosFile, problems)
    warnings = [
        f"{name}: ignored, {reason}"
        for name, reason in _INERT_FILES.items()
        if (directory / name).exists()
    ]
    crossed = cross_check(
        directory,
        scenes=scenes.scenes if scenes else None,
        tasks=tasks.tasks if tasks else None,
        scenario_sets=sets.scenario_sets if sets else None,
    )
    problems += crossed.problems
    if problems or scenes is None or tasks is None or sets is None:
        raise CatalogError(problems)
    return Catalog(
        directory=directory,
        scenes=scenes.scenes,
        tasks=tasks.tasks,
        scenario_sets=sets.scenario_sets,
        warnings=(*warnings, *crossed.warnings),
    )
