"""Plain values -> `ExperimentSettings`, reporting every mistake at once with its origin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from openeta_exp.domain.identity import JsonObject
from openeta_exp.errors import SettingsError
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.rules import misfits
from openeta_exp.wire.explain import printable, sentence, show


class Origin(Protocol):
    """Where a setting was written."""

    def __call__(self, path: Sequence[str]) -> str:
        """The file or `command line` that decided the field at this path."""
        ...


def somewhere(path: Sequence[str]) -> str:
    """The origin of settings that were not composed from files."""
    return "settings"


def parse_settings(fields: JsonObject, *, origin: Origin = somewhere) -> ExperimentSettings:
    """The one place where untyped settings become typed.

    Numbers are never read from texts, nor whole numbers from `true` or `1.0`.

    Raises:
        SettingsError: With one sentence per mistake: origin, field, value, what is wrong, fix.
    """
    try:
        return ExperimentSettings.model_validate_json(json.dumps(fields, default=str), strict=True)
    except ValidationError as error:
        raise SettingsError(
            [printable(problem) for problem in _problems(error, fields, origin)]
        ) from None


def _problems(error: ValidationError, fields: JsonObject, origin: Origin) -> Iterator[str]:
    for each in error.errors(include_url=False):
        if not each["loc"]:
            continue  # The rules across sections, which are asked again below.
        place = _place(each["loc"])
        field = ".".join(place.path)
        yield f"{origin(place.path)}: {sentence(field, each, known=place.known)}"
    for field, reason in misfits(_valid_sections(fields)):
        path = field.split(".")
        yield f"{origin(path)}: {field} = {show(_value_at(fields, path))}: {reason}"


def _valid_sections(fields: JsonObject) -> dict[str, object]:
    """The sections that are right on their own, so that rules across them can be asked too."""
    sections: dict[str, object] = {}
    for name, field in ExperimentSettings.model_fields.items():
        if name not in fields:
            sections[name] = field.get_default(call_default_factory=True)
            continue
        # Rebuilt as the model has it: the discriminator lives on the field, not in its type.
        wanted: TypeAdapter[object] = TypeAdapter(field.rebuild_annotation())
        try:
            sections[name] = wanted.validate_json(
                json.dumps(fields[name], default=str), strict=True
            )
        except ValidationError:
            continue
    return sections


def _value_at(fields: JsonObject, path: Sequence[str]) -> object:
    value: object = fields
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


@dataclass(frozen=True, slots=True)
class _Place:
    path: tuple[str, ...]
    known: tuple[str, ...]


def _place(loc: Sequence[int | str]) -> _Place:
    """The path in conf/ behind a pydantic location, which also names the chosen `kind`s."""
    here: object = ExperimentSettings
    path: list[str] = []
    known: tuple[str, ...] = ()
    for part in loc:
        if get_origin(here) is dict:
            path.append(str(part))
            here = get_args(here)[1]
            continue
        options = _models_in(here)
        kinds = {kind: each for each in options if (kind := _kind(each)) is not None}
        if len(options) > 1 and part in kinds:
            here = kinds[str(part)]
        elif isinstance(part, int):
            path[-1] += f"[{part}]"
            here = None
        else:
            path.append(part)
            known = tuple(options[0].model_fields) if options else ()
            here = options[0].model_fields[part].annotation if part in known else None
    return _Place(tuple(path), known)


def _models_in(annotation: object) -> tuple[type[BaseModel], ...]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(each for inner in get_args(annotation) for each in _models_in(inner))


def _kind(model: type[BaseModel]) -> str | None:
    """What tells a model from its alternatives: its `kind`, or the `mode` of a gate."""
    for name in ("kind", "mode"):
        if name in model.model_fields:
            return str(model.model_fields[name].default)
    return None
