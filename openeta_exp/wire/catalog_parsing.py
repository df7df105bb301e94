"""One file of a catalog -> its record, or every mistake in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel, JsonValue, ValidationError

from openeta_exp.wire.catalog_files import ScenariosFile, ScenesFile, TasksFile
from openeta_exp.wire.document import DocumentError, read_document
from openeta_exp.wire.explain import sentence

AnyFile = TypeVar("AnyFile", ScenesFile, TasksFile, ScenariosFile)


def parse_catalog_file(path: Path, shape: type[AnyFile], problems: list[str]) -> AnyFile | None:
    """Read one file; every mistake is added to `problems` as `file: field = value: fix`."""
    try:
        content = read_document(path)
    except DocumentError as error:
        problems += [f"{path.name}: {problem}" for problem in error.problems]
        return None
    if not isinstance(content, dict):
        problems.append(f"{path.name}: must be a mapping with {sorted(shape.model_fields)}")
        return None
    try:
        return shape.model_validate(content)
    except ValidationError as error:
        problems += _explained(error, content, shape=shape, name=path.name)
        return None


def _explained(
    error: ValidationError, content: JsonValue, *, shape: type[BaseModel], name: str
) -> list[str]:
    found: dict[str, str] = {}
    mistakes = error.errors(include_url=False)
    inside = {each["loc"][:depth] for each in mistakes for depth in range(len(each["loc"]))}
    for each in mistakes:
        if each["type"] == "too_short" and each["loc"] in inside:
            continue  # Of a list pydantic counts only what is right.
        missing = each["type"] == "missing"
        place = _existing(each["loc"], content, and_next=missing)
        field = _dotted(place)
        known = _fields_at(shape, place[:-1])
        # Of a union pydantic reports one error per alternative; the first says enough, but of
        # nan it says that it is no whole number.
        if field not in found or each["type"] == "finite_number":
            found[field] = f"{name}: {sentence(field, each, known=known)}"
    return list(found.values())


def _existing(
    loc: Sequence[int | str], content: JsonValue, *, and_next: bool
) -> tuple[int | str, ...]:
    """The part of an error's place that is in the file: pydantic adds names of alternatives."""
    value, place = content, list[int | str]()
    for part in loc:
        if isinstance(value, dict) and part in value:
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            if and_next and isinstance(value, dict):
                place.append(part)
            break
        place.append(part)
    return tuple(place)


def _dotted(place: Sequence[int | str]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".") or "the file"


def _fields_at(shape: object, place: Sequence[int | str]) -> tuple[str, ...]:
    """Names of the fields of the record at a place, or none if no record stands there."""
    current = shape
    for part in place:
        current = _step_into(current, part)
    record = _record_in(current)
    return tuple(record.model_fields) if record else ()


def _step_into(shape: object, part: int | str) -> object:
    record = _record_in(shape)
    if record and isinstance(part, str):
        field = record.model_fields.get(part)
        return field.annotation if field else None
    # A list of records, or a mapping whose keys the user chooses.
    return next((inner for inner in get_args(shape) if _record_in(inner)), None)


def _record_in(shape: object) -> type[BaseModel] | None:
    """The record type itself, or the one behind `X | None`."""
    options = get_args(shape) if type(None) in get_args(shape) else (shape,)
    for option in options:
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None
