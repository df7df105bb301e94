"""Reading one field of somebody else's JSON, with an error that names it."""

from __future__ import annotations

import math

from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject


class FieldError(ValueError):
    """A field is missing or is not what the contract says."""


def object_field(source: JsonObject, name: str) -> JsonObject:
    value = source.get(name)
    if not isinstance(value, dict):
        raise FieldError(f"`{name}` must be an object, is {_shown(value)}")
    return value


def optional_object(source: JsonObject, name: str) -> JsonObject:
    return {} if source.get(name) is None else object_field(source, name)


def list_field(source: JsonObject, name: str) -> list[JsonValue]:
    value = source.get(name)
    if not isinstance(value, list):
        raise FieldError(f"`{name}` must be a list, is {_shown(value)}")
    return value


def objects_field(source: JsonObject, name: str) -> list[JsonObject]:
    """A list of objects; a missing one is empty."""
    if source.get(name) is None:
        return []
    rows = list_field(source, name)
    if not all(isinstance(row, dict) for row in rows):
        raise FieldError(f"`{name}` must hold objects only")
    return [row for row in rows if isinstance(row, dict)]


def text_field(source: JsonObject, name: str) -> str:
    value = source.get(name)
    if not isinstance(value, str):
        raise FieldError(f"`{name}` must be text, is {_shown(value)}")
    return value


def number_field(source: JsonObject, name: str) -> float:
    return _number(source.get(name), name)


def optional_number(source: JsonObject, name: str, default: float) -> float:
    return default if source.get(name) is None else number_field(source, name)


def integer_field(source: JsonObject, name: str) -> int:
    value = number_field(source, name)
    if value != int(value):
        raise FieldError(f"`{name}` must be whole, is {value}")
    return int(value)


def boolean_field(source: JsonObject, name: str, *, default: bool) -> bool:
    value = source.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise FieldError(f"`{name}` must be true or false, is {_shown(value)}")
    return value


def numbers_field(source: JsonObject, name: str, *, length: int | None = None) -> list[float]:
    """Finite numbers, `length` of them if given."""
    values = [_number(each, name) for each in list_field(source, name)]
    if length is not None and len(values) != length:
        raise FieldError(f"`{name}` must hold {length} numbers, holds {len(values)}")
    return values


def vector3_field(source: JsonObject, name: str) -> tuple[float, float, float]:
    x, y, z = numbers_field(source, name, length=3)
    return x, y, z


def _number(value: JsonValue, name: str) -> float:
    number = finite_number(value)
    if number is None:
        raise FieldError(f"`{name}` must be a finite number, is {_shown(value)}")
    return number


def finite_number(value: JsonValue) -> float | None:
    """The number as a double; None if it is none, or none that a double can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # A whole number of more than 308 digits.
        return None
    return number if math.isfinite(number) else None


def _shown(value: JsonValue) -> str:
    """Short, whatever was sent, and without writing all of it out first."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return repr(value[:60])
    return "a huge number" if isinstance(value, int) and abs(value) > 10**60 else repr(value)
