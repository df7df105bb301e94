"""scenes.yaml, tasks.yaml and scenarios.yaml as records: all that a user may write."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictFloat, StrictInt, model_validator

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record

Number = StrictInt | StrictFloat
"""An int stays an int: 1 and 1.0 are two different scenario values."""

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?")
_IMPORT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def _check_label(label: str) -> str:
    if not _LABEL.fullmatch(label):
        raise ValueError("use 1 to 128 of a-z, 0-9 and hyphens, with no hyphen at either end")
    return label


def _check_import(text: str) -> str:
    if not _IMPORT.fullmatch(text):
        raise ValueError("write an import string: package.module:Name")
    return text


Label = Annotated[str, AfterValidator(_check_label)]
ImportString = Annotated[str, AfterValidator(_check_import)]
Text = Annotated[str, Field(min_length=1)]


class External(Record):
    """Where a scene comes from: an adapter class."""

    provider: ImportString
    """The adapter class. Imported when episodes run, never when they are planned."""
    ref: JsonObject = Field(default_factory=dict)
    """Locates the scene. Identity only; not handed to the constructor."""
    params: JsonObject = Field(default_factory=dict)
    """Keyword arguments of the constructor."""


class MetricRule(Record):
    """A function that reads values out of the final state of an episode."""

    extractor: ImportString
    """Called as `extractor(state, context)`; returns a mapping from metric to number."""
    produces: tuple[Text, ...] = Field(min_length=1)
    args: JsonObject = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        if len(set(self.produces)) < len(self.produces):
            raise ValueError("produces names a metric twice")
        return self


class SceneEntry(Record):
    """One scene: an engine, and the adapter that opens it."""

    id: Label
    engine: Text
    external: External | None = None
    engine_version: str | None = None
    assets: tuple[Text, ...] = ()
    """Globs below the catalog's directory; name and content of every match are identity."""
    metrics: tuple[MetricRule, ...] = ()
    description: str = ""
    model: str | None = None
    model_hash: str | None = None
    resource_shape: tuple[JsonObject, ...] = ()


class Threshold(Record):
    """One condition on a metric."""

    metric: Text
    at_least: Number | None = None
    at_most: Number | None = None

    @model_validator(mode="after")
    def _has_one_bound(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give exactly one of at_least and at_most")
        return self

    def holds(self, value: float) -> bool:
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is not None and value <= self.at_most


class SuccessRule(Record):
    """Narrows the predicate's verdict by thresholds on metrics; it never widens it."""

    all_of: tuple[Threshold, ...] = Field(min_length=1)


class Phase(Record):
    """A milestone. Phases are reached in the order in which they are listed."""

    name: Text
    predicate: ImportString
    predicate_args: JsonObject = Field(default_factory=dict)


class TaskEntry(Record):
    """One goal on one scene."""

    id: Label
    scene: Label
    instruction: Text
    """Selects the entry of `get_tasks()` whose `name` equals it."""
    predicate: ImportString
    predicate_args: JsonObject = Field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    max_steps: int = Field(default=400, gt=0, strict=True)
    provider_ref: JsonObject = Field(default_factory=dict)
    """What the selected entry of `get_tasks()` must say; also shown to predicates and metrics."""
    success: SuccessRule | None = None
    description: str = ""

    @model_validator(mode="after")
    def _phases_are_unique(self) -> Self:
        names = [phase.name for phase in self.phases]
        if len(set(names)) < len(names):
            raise ValueError("two phases have one name")
        return self


class Parameter(Record):
    """The values of one scenario parameter, in exactly one of four forms.

    range + steps; choices; value; range + samples + distribution.
    """

    range: tuple[Number, Number] | None = None
    steps: int | None = Field(default=None, gt=0, strict=True)
    choices: tuple[str | bool | Number | None, ...] | None = Field(default=None, min_length=1)
    value: str | bool | Number | tuple[Number, ...] | None = None
    samples: int | None = Field(default=None, gt=0, strict=True)
    distribution: Literal["uniform", "normal"] | None = None
    mean: Number | None = None
    std: Number | None = Field(default=None, gt=0)

    @property
    def is_random(self) -> bool:
        return self.samples is not None

    @property
    def is_constant(self) -> bool:
        return "value" in self.model_fields_set

    @model_validator(mode="after")
    def _is_one_form(self) -> Self:
        forms = {
            "range with steps": self.steps is not None,
            "choices": self.choices is not None,
            "value": self.is_constant,
            "range with samples and distribution": self.is_random,
        }
        used = [name for name, present in forms.items() if present]
        if len(used) != 1 or (self.range is not None and used[0] in ("choices", "value")):
            found = used or sorted(self.model_fields_set) or ["nothing"]
            raise ValueError(f"use exactly one form of {list(forms)}; found {found}")
        if (self.steps is not None or self.is_random) and self.range is None:
            raise ValueError("range: [low, high] is missing")
        if self.range is not None:
            if not all(math.isfinite(bound) for bound in self.range):
                raise ValueError("range must be finite")
            if self.range[0] > self.range[1]:
                raise ValueError(f"range is reversed: {list(self.range)}")
        self._check_distribution()
        return self

    def _check_distribution(self) -> None:
        shape = (self.mean is not None, self.std is not None)
        if self.is_random and self.distribution is None:
            raise ValueError("distribution is missing: uniform or normal")
        if self.distribution == "normal" and not all(shape):
            raise ValueError("a normal distribution needs mean and std")
        if self.distribution != "normal" and any(shape):
            raise ValueError("mean and std belong to distribution: normal")
        if self.distribution is not None and not self.is_random:
            raise ValueError("distribution needs samples")


class PerturbationEntry(Record):
    """A change of the world or of the observation in the middle of an episode."""

    type: Literal[
        "scale_actuator",
        "displace_body",
        "apply_force",
        "drop_observation",
        "substitute_observation",
    ]
    at_step: int = Field(ge=0, strict=True)
    until_step: int | None = Field(default=None, strict=True)
    target: str | None = None
    """Actuator or body; for observations a dotted path such as `images.front`."""
    args: JsonObject = Field(default_factory=dict)
    levels: tuple[Number, ...] = ()
    """Runs every scenario once per level: the factor of an actuator, or a multiple of the
    displacement or of the force."""

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        wanted = _PERTURBATION_ARGS[self.type]
        given = set(self.args) | ({"factor"} if self.levels else set())
        missing, extra = sorted(wanted.required - given), sorted(set(self.args) - wanted.allowed)
        problems = [
            *(f"args.{name} is missing" for name in missing),
            *(f"args.{name} is unknown; {self.type} knows {sorted(wanted.allowed)}"
              for name in extra),
        ]  # fmt: skip
        if not self.target:
            problems.append("target is missing")
        if self.until_step is not None and self.until_step <= self.at_step:
            problems.append("until_step must come after at_step")
        if self.until_step is not None and not wanted.can_end:
            problems.append(f"{self.type} cannot end; leave until_step out")
        if self.levels and not wanted.has_level:
            problems.append(f"{self.type} has no level; leave levels out")
        problems.extend(_value_problems(self))
        if problems:
            raise ValueError("; ".join(problems))
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arguments:
    required: frozenset[str]
    allowed: frozenset[str]
    can_end: bool
    has_level: bool


def _arguments(required: str, *, optional: str = "", can_end: bool, has_level: bool) -> _Arguments:
    names = frozenset(required.split())
    return _Arguments(
        required=names,
        allowed=names | frozenset(optional.split()),
        can_end=can_end,
        has_level=has_level,
    )


_PERTURBATION_ARGS = {
    "scale_actuator": _arguments("factor", can_end=True, has_level=True),
    "displace_body": _arguments("delta", can_end=True, has_level=True),
    "apply_force": _arguments("wrench", can_end=False, has_level=True),
    "drop_observation": _arguments("", optional="fill", can_end=True, has_level=False),
    "substitute_observation": _arguments("kind name", can_end=True, has_level=False),
}


def _value_problems(entry: PerturbationEntry) -> list[str]:
    problems = []
    for name, length in (("delta", 3), ("wrench", 6)):
        if name in entry.args and not _is_vector(entry.args[name], length):
            problems.append(f"args.{name} must be {length} numbers")
    factor = entry.args.get("factor", 1.0)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or factor == 0:
        problems.append("args.factor must be a number other than 0")
    if entry.type == "scale_actuator" and 0 in entry.levels:
        problems.append("levels: a factor of 0 has no inverse")
    if entry.args.get("fill", "zeros") not in ("zeros", "missing"):
        problems.append("args.fill must be zeros or missing")
    return problems


def _is_vector(value: object, length: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == length
        and all(isinstance(each, int | float) and not isinstance(each, bool) for each in value)
    )


class ScenarioSet(Record):
    """Parameters and how they become scenarios."""

    id: Label
    scene: Label
    generator: ImportString
    """Called as `generator(params, seed)` while planning; returns a list of objects."""
    generator_seed: int = Field(strict=True)
    params: dict[str, Parameter] = Field(min_length=1)
    """In axis order. The names must be those which the adapter's `reset` reads."""
    filter: ImportString | None = None
    """Called with one scenario's values while planning; keeps it if true."""
    tasks: tuple[Label, ...] = ()
    """Empty means every task on the scene."""
    perturbations: tuple[PerturbationEntry, ...] = ()


_API_VERSION = Literal["refractal.dev/v1alpha1"]


class ScenesFile(Record):
    apiVersion: _API_VERSION | None = None  # noqa: N815 - the key of the file format
    scenes: tuple[SceneEntry, ...] = Field(min_length=1)


class TasksFile(Record):
    apiVersion: _API_VERSION | None = None  # noqa: N815
    tasks: tuple[TaskEntry, ...] = Field(min_length=1)


class ScenariosFile(Record):
    apiVersion: _API_VERSION | None = None  # noqa: N815
    scenario_sets: tuple[ScenarioSet, ...] = Field(min_length=1)
