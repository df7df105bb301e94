"""One scenario set -> its scenarios: generated, checked, filtered, perturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter, ValidationError

from openeta_exp.catalog.generators import MAX_SCENARIOS, tidy
from openeta_exp.catalog.importing import load, refusing
from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.errors import CatalogError
from openeta_exp.wire.catalog_files import PerturbationEntry, ScenarioSet

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


@dataclass(frozen=True, slots=True)
class LeveledScenario:
    """Values for `reset`, and what happens to the episode on the way.

    Attributes:
        level: Of the set's swept perturbation; None if nothing is swept.
    """

    params: JsonObject
    perturbations: tuple[JsonObject, ...] = ()
    level: float | None = None


def generate(scenario_set: ScenarioSet) -> list[LeveledScenario]:
    """Call the generator and the filter, and cross the result with the perturbation levels.

    Raises:
        CatalogError: Either raised, gave something unusable, or is not deterministic; or the
            filter kept nothing.
    """
    generator = load(scenario_set.generator)
    if not callable(generator):
        raise CatalogError(f"generator = {scenario_set.generator!r}: cannot be called")
    runs = []
    for _ in range(2 if _is_foreign(scenario_set.generator) else 1):
        with refusing(f"generator {scenario_set.generator} failed"):
            runs.append(generator(dict(scenario_set.params), scenario_set.generator_seed))
    scenarios = [_checked(each, scenario_set.generator) for each in _listed(runs[0], scenario_set)]
    if len(runs) > 1 and runs[0] != runs[1]:
        raise CatalogError(
            f"generator {scenario_set.generator} gave two different lists for one seed; "
            "draw from random.Random(seed) only"
        )
    kept = _filtered(scenarios, scenario_set)
    return [each for params in kept for each in _perturbed(params, scenario_set.perturbations)]


def _is_foreign(import_string: str) -> bool:
    return import_string.partition(":")[0] != "refractal.generators"


def _listed(found: object, scenario_set: ScenarioSet) -> Sequence[object]:
    name = scenario_set.generator
    if not isinstance(found, list):
        raise CatalogError(f"generator {name} must return a list, not {type(found).__name__}")
    if not found:
        raise CatalogError(f"generator {name} returned no scenario")
    if len(found) > MAX_SCENARIOS:
        raise CatalogError(f"generator {name} returned more than {MAX_SCENARIOS} scenarios")
    return found


def _checked(scenario: object, generator: str) -> JsonObject:
    if not isinstance(scenario, Mapping):
        raise CatalogError(f"generator {generator} must return a list of mappings")
    checked: JsonObject = {}
    for name, value in scenario.items():
        if not isinstance(name, str):
            raise CatalogError(f"generator {generator} returned the key {name!r}; use texts")
        try:
            checked[name] = _JSON.validate_python(_plain(value))
        except (ValueError, ValidationError) as error:
            raise CatalogError(
                f"generator {generator} returned {name} = {value!r}, which is no finite JSON value"
            ) from error
    return checked


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return tidy(value) if isinstance(value, float) else value


def _filtered(scenarios: list[JsonObject], scenario_set: ScenarioSet) -> list[JsonObject]:
    if scenario_set.filter is None:
        return scenarios
    keeps = load(scenario_set.filter)
    if not callable(keeps):
        raise CatalogError(f"filter = {scenario_set.filter!r}: cannot be called")
    with refusing(f"filter {scenario_set.filter} failed"):
        kept = [each for each in scenarios if keeps(dict(each))]
    if not kept:
        raise CatalogError(
            f"filter = {scenario_set.filter!r}: keeps none of "
            f"{counted(len(scenarios), 'scenario')}; their parameters are {sorted(scenarios[0])}"
        )
    return kept


def _perturbed(params: JsonObject, entries: Sequence[PerturbationEntry]) -> list[LeveledScenario]:
    swept = next((each for each in entries if each.levels), None)
    if swept is None:
        return [LeveledScenario(params, tuple(_plan(each) for each in entries))]
    return [
        LeveledScenario(
            params,
            tuple(_plan(each, level if each is swept else None) for each in entries),
            float(level),
        )
        for level in swept.levels
    ]


def _plan(entry: PerturbationEntry, level: float | None = None) -> JsonObject:
    """What the worker is told, with a level already applied to the arguments."""
    arguments: JsonObject = dict(entry.args)
    if level is not None:
        match entry.type:
            case "scale_actuator":
                arguments["factor"] = level
            case "displace_body":
                arguments["delta"] = _scaled(arguments["delta"], level)
            case "apply_force":
                arguments["wrench"] = _scaled(arguments["wrench"], level)
            case _:
                raise AssertionError(f"{entry.type} has no level")
    plan: JsonObject = {"type": entry.type, "at_step": entry.at_step, "args": arguments}
    if entry.until_step is not None:
        plan["until_step"] = entry.until_step
    plan["target"] = entry.target
    return plan


def _scaled(vector: JsonValue, level: float) -> list[JsonValue]:
    values = vector if isinstance(vector, list) else []
    return [tidy_number(each * level) for each in values if isinstance(each, int | float)]


def tidy_number(value: float) -> float:
    tidied = tidy(float(value))
    assert isinstance(tidied, float)
    return tidied
