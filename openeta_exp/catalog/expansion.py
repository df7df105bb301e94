"""A catalog -> a manifest of episodes, and the table that leads back to scene and task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import JsonValue

from openeta_exp.catalog.identity import (
    environment_id,
    scenario_digest,
    scene_digest,
    task_digest,
)
from openeta_exp.catalog.importing import searching
from openeta_exp.catalog.reading import Catalog
from openeta_exp.catalog.scenarios import LeveledScenario, generate
from openeta_exp.domain.budget import Budget
from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import Digest, EpisodeId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec, Manifest, Split
from openeta_exp.domain.pair import PairKey
from openeta_exp.errors import CatalogError
from openeta_exp.wire.catalog_files import ScenarioSet, SceneEntry, TaskEntry
from openeta_exp.wire.explain import nearest

_ID_CHARACTERS = 96


class Tier(StrEnum):
    """How much of every scenario set runs; each tier contains the smaller ones."""

    SMOKE = "smoke"
    REGRESSION = "regression"
    FULL = "full"


_SHARE = {Tier.SMOKE: 0.1, Tier.REGRESSION: 0.5, Tier.FULL: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Everything a worker needs to run the episodes of one environment."""

    scene: SceneEntry
    task: TaskEntry
    scene_digest: Digest
    task_digest: Digest
    seed_parameter: str | None = None
    """Scenario parameter that carries the spec's seed, for adapters that start from seeds."""

    @property
    def named(self) -> str:
        """Where to look when the adapter fails."""
        external = self.scene.external
        provider = "" if external is None else f" (external.provider = {external.provider!r})"
        return f"task {self.task.id} on scene {self.scene.id}{provider}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRow:
    """One line of the join table: what an episode's label, scene and task stand for.

    Attributes:
        base_scenario_digest: The same scenario without perturbations.
        level: The perturbation level it was expanded for, if its set has levels.
    """

    episode_id: EpisodeId
    env_id: str
    scene_id: str
    task_id: str
    scenario_set_id: str
    scenario_digest: Digest
    base_scenario_digest: Digest
    params: JsonObject
    perturbations: tuple[JsonObject, ...] = ()
    level: float | None = None
    repeat: int = 0

    @property
    def is_neutral(self) -> bool:
        """The level of the swept perturbation at which it changes nothing."""
        scaled = any(each["type"] == "scale_actuator" for each in self.perturbations)
        return self.level == (1.0 if scaled else 0.0)

    @property
    def pair_key(self) -> PairKey:
        """What both arms of a pair have in common: scene and task, scenario, repeat."""
        return PairKey(
            env_id=self.env_id,
            task_id=self.task_id,
            scenario_id=self.scenario_digest[:16],
            rep=self.repeat,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """What a catalog asks to be run.

    Attributes:
        rows: One per episode, in the manifest's order.
        bindings: By `env_id`.
        search_path: Directories in which the catalog's own modules are looked up first.
    """

    manifest: Manifest
    rows: tuple[ScenarioRow, ...]
    bindings: Mapping[str, Binding]
    warnings: tuple[str, ...]
    search_path: tuple[str, ...]

    def by_episode(self) -> dict[str, ScenarioRow]:
        """The rows by episode id; made anew at every call."""
        return {str(each.episode_id): each for each in self.rows}


def expand(
    catalog: Catalog,
    *,
    repeats: int = 1,
    tier: Tier = Tier.FULL,
    scenario_sets: Sequence[str] = (),
    timeout_s: float = 3600.0,
    split: Split | None = None,
) -> Expansion:
    """Generate every scenario, pair it with every task of its set, and repeat it.

    Generators and filters are imported and called; adapters and predicates are not.

    Args:
        repeats: Episodes per scenario and task. Alike, so no independent evidence beyond the first.
        scenario_sets: Which sets to run; empty means all.
        timeout_s: Wall clock of one episode.

    Raises:
        CatalogError: A generator or filter cannot be used, or nothing is left to run.
    """
    path = (str(catalog.directory.resolve()), str(Path.cwd()))
    problems: list[str] = []
    warnings = list(catalog.warnings)
    chosen = _chosen(catalog, scenario_sets)
    bindings = _bindings(catalog, path)
    rows: dict[tuple[str, Digest], ScenarioRow] = {}
    with searching(path):
        for at, scenario_set in enumerate(catalog.scenario_sets):
            if scenario_set not in chosen:
                continue
            where = f"scenarios.yaml: scenario_sets[{at}]"
            try:
                scenarios = generate(scenario_set)
            except CatalogError as error:
                problems += [f"{where}: {problem}" for problem in error.problems]
                continue
            warnings += _type_collisions(where, scenarios)
            kept = _of_tier(scenarios, tier)
            _add_rows(rows, kept, scenario_set, catalog, bindings, where=where, warnings=warnings)
    if problems:
        raise CatalogError(problems)
    if repeats < 1:
        raise CatalogError(f"catalog.repeats = {repeats}: must be at least 1")
    episodes = [
        (_repeated(row, repeat), repeat) for row in rows.values() for repeat in range(repeats)
    ]
    by_id = dict(bindings.values())
    return Expansion(
        manifest=Manifest(
            episodes=tuple(
                _spec(row, by_id[row.env_id], timeout_s=timeout_s) for row, _ in episodes
            ),
            split=split,
        ),
        rows=tuple(row for row, _ in episodes),
        bindings=by_id,
        warnings=tuple(dict.fromkeys(warnings)),
        search_path=path,
    )


def _chosen(catalog: Catalog, wanted: Sequence[str]) -> tuple[ScenarioSet, ...]:
    known = [each.id for each in catalog.scenario_sets]
    unknown = [
        f"catalog.scenario_sets = {name!r}: no such set; {nearest(name, known)}"
        for name in wanted
        if name not in known
    ]
    if unknown:
        raise CatalogError(unknown)
    return tuple(each for each in catalog.scenario_sets if not wanted or each.id in wanted)


def _bindings(catalog: Catalog, path: Sequence[str]) -> dict[str, tuple[str, Binding]]:
    """By task id: the environment's id and its binding."""
    scenes = {
        scene.id: scene_digest(scene, directory=catalog.directory, search_path=path)
        for scene in catalog.scenes
    }
    found: dict[str, tuple[str, Binding]] = {}
    for task in catalog.tasks:
        scene = catalog.scene(task.scene)
        binding = Binding(
            scene=scene,
            task=task,
            scene_digest=scenes[scene.id],
            task_digest=task_digest(task, scene, path),
        )
        env_id = environment_id(binding.scene_digest, binding.task_digest)
        found[task.id] = (env_id, binding)
    return found


def _of_tier(scenarios: Sequence[LeveledScenario], tier: Tier) -> list[LeveledScenario]:
    """The share of a tier, by the first 48 bits of the scenario's digest; never none.

    Stable under additions: a scenario's membership depends on nothing but its own content.
    """
    share = _SHARE[tier]

    def position(scenario: LeveledScenario) -> float:
        return int(scenario_digest(scenario.params)[:12], 16) / float(1 << 48)

    kept = [each for each in scenarios if position(each) < share]
    return kept or [min(scenarios, key=position)]


def _type_collisions(where: str, scenarios: Sequence[LeveledScenario]) -> Iterator[str]:
    seen: dict[tuple[tuple[str, JsonValue], ...], Digest] = {}
    for scenario in scenarios:
        if any(isinstance(value, list | dict) for value in scenario.params.values()):
            continue
        key = (*sorted(scenario.params.items()), ("level", scenario.level))
        exact = scenario_digest(scenario.params)
        if seen.setdefault(key, exact) != exact:
            yield f"{where}: 1 and 1.0 are two scenarios; write {scenario.params} one way"


def _add_rows(
    rows: dict[tuple[str, Digest], ScenarioRow],
    scenarios: Sequence[LeveledScenario],
    scenario_set: ScenarioSet,
    catalog: Catalog,
    bindings: Mapping[str, tuple[str, Binding]],
    *,
    where: str,
    warnings: list[str],
) -> None:
    doubled = 0
    for task in catalog.tasks_of(scenario_set):
        env_id, _ = bindings[task.id]
        for index, scenario in enumerate(scenarios):
            exact = scenario_digest(scenario.params, list(scenario.perturbations))
            if (env_id, exact) in rows:
                doubled += 1
                continue
            rows[env_id, exact] = ScenarioRow(
                episode_id=_episode_id(f"{task.id}.{scenario_set.id}", index, exact),
                env_id=env_id,
                scene_id=task.scene,
                task_id=task.id,
                scenario_set_id=scenario_set.id,
                scenario_digest=exact,
                base_scenario_digest=scenario_digest(scenario.params),
                params=dict(scenario.params),
                perturbations=scenario.perturbations,
                level=scenario.level,
            )
    if doubled:
        twice = counted(
            doubled, "scenario occurs twice and runs", plural="scenarios occur twice and run"
        )
        warnings.append(f"{where}: {twice} once")


def _episode_id(prefix: str, index: int, exact: Digest) -> EpisodeId:
    """A label to read, unique in a manifest and fit to name a directory."""
    tail = f".{index:04d}-{exact[:6]}"
    return EpisodeId(prefix[: _ID_CHARACTERS - len(tail) - 8] + tail)


def _repeated(row: ScenarioRow, repeat: int) -> ScenarioRow:
    return ScenarioRow(
        episode_id=EpisodeId(f"{row.episode_id}.r{repeat}"),
        env_id=row.env_id,
        scene_id=row.scene_id,
        task_id=row.task_id,
        scenario_set_id=row.scenario_set_id,
        scenario_digest=row.scenario_digest,
        base_scenario_digest=row.base_scenario_digest,
        params=row.params,
        perturbations=row.perturbations,
        level=row.level,
        repeat=repeat,
    )


def _spec(row: ScenarioRow, binding: Binding, *, timeout_s: float) -> EpisodeSpec:
    scenario: JsonObject = dict(row.params)
    if row.perturbations:
        scenario["perturbations"] = list(row.perturbations)
    tags: JsonObject = {
        "scene": row.scene_id,
        "task": row.task_id,
        "scenario_set": row.scenario_set_id,
        "scenario_digest": row.scenario_digest,
    }
    if row.level is not None:
        tags["level"] = row.level
    return EpisodeSpec(
        episode_id=row.episode_id,
        env_id=row.env_id,
        task=binding.task.instruction,
        repeat=row.repeat,
        # A policy takes one action per turn, so the step limit bounds both counts.
        budget=Budget(
            max_turns=binding.task.max_steps,
            max_tool_calls=binding.task.max_steps,
            timeout_s=timeout_s,
        ),
        scenario=scenario,
        tags=tags,
    )
