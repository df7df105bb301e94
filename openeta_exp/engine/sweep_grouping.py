"""Which jobs of a sweep are generations of one lineage, and what each lineage is called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from openeta_exp.domain.identity import check_path_component
from openeta_exp.domain.record import digest

Asked = TypeVar("Asked")

_NAMING_AXES = ("experiment", "experiment_id")
"""Axes that name the experiment themselves."""
_LONGEST_NAME = 96
_DIGEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptJob(Generic[Asked]):
    """One job as the command line asks for it.

    Attributes:
        choices: Field or group -> value, as text, in the order of the command line; without
            `generation`.
        generation: None for a job that runs all of them.
        experiment_id: Before anything is added to tell lineages apart.
    """

    choices: Mapping[str, str]
    generation: int | None
    experiment_id: str
    asked: Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptLineage(Generic[Asked]):
    """Jobs that differ only in their generation, in its order.

    Attributes:
        axes: What tells this lineage from the others, by field or group.
    """

    experiment_id: str
    axes: Mapping[str, str]
    jobs: tuple[Asked, ...]


def group_by_lineage(jobs: Sequence[SweptJob[Asked]]) -> tuple[SweptLineage[Asked], ...]:
    """Lineages in the order in which their first job was asked for.

    Raises:
        ValueError: If a lineage's name could not name a directory.
    """
    groups: dict[tuple[tuple[str, str], ...], list[SweptJob[Asked]]] = {}
    for job in jobs:
        groups.setdefault(tuple(sorted(job.choices.items())), []).append(job)
    names = _names([group[0] for group in groups.values()])
    axes = _axes([group[0] for group in groups.values()])
    return tuple(
        SweptLineage(
            experiment_id=name,
            axes={axis: group[0].choices.get(axis, "") for axis in axes},
            jobs=tuple(job.asked for job in sorted(group, key=_place)),
        )
        for name, group in zip(names, groups.values(), strict=True)
    )


def _place(job: SweptJob[Asked]) -> int:
    return -1 if job.generation is None else job.generation


def _axes(lineages: Sequence[SweptJob[Asked]]) -> list[str]:
    """What the lineages differ in, sorted, so that the order of arguments changes no name."""
    fields = sorted({field for job in lineages for field in job.choices})
    return [field for field in fields if len({job.choices.get(field) for job in lineages}) > 1]


def _names(lineages: Sequence[SweptJob[Asked]]) -> list[str]:
    """A name for each lineage that depends on its own choices only, not on its neighbours'."""
    axes = _axes(lineages)
    for told_apart_by in ([axis for axis in axes if axis not in _NAMING_AXES], axes):
        names = [
            _name(job.experiment_id, {axis: job.choices.get(axis, "") for axis in told_apart_by})
            for job in lineages
        ]
        if len(set(names)) == len(names):
            break
    return names


def _name(experiment_id: str, axes: Mapping[str, str]) -> str:
    if not axes:
        return check_path_component(experiment_id)
    exact = [f"{axis.rpartition('.')[2].rpartition('/')[2]}-{axes[axis]}" for axis in axes]
    name = "-".join([experiment_id, *(re.sub(r"[^A-Za-z0-9_.]+", "-", each) for each in exact)])
    if name == "-".join([experiment_id, *exact]) and len(name) <= _LONGEST_NAME:
        return check_path_component(name)
    # Characters were lost, so two values could have become one.
    exactly = digest(dict(axes))[:_DIGEST]
    room = _LONGEST_NAME - _DIGEST - 1
    return check_path_component(f"{name[:room].rstrip('-')}-{exactly}")
