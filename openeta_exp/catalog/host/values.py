"""Values of others as JSON, as leaves and as digests: nested containers of numpy and Python."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass

import numpy as np

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
MAX_INLINE = 4096
"""Numbers in an array that is still written out; a larger one is named by its digest."""


def plain(value: object) -> Json:
    """The value as JSON. NaN and infinities become words, large arrays a digest."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        if value.size <= MAX_INLINE and value.dtype.kind in "biuf":
            return plain(value.tolist())
        return {
            "shape": list(value.shape),
            "dtype": str(value.dtype),
            "sha256": digest_of(value),
        }
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(each) for each in value), key=str)
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every scalar, text and array with its dotted path, in a stable order.

    An object of an unknown kind is taken apart by its attributes; one without any is a leaf
    that only its type names.
    """
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from leaves(value[key], f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and not _is_numeric(value):
        for index, each in enumerate(value):
            yield from leaves(each, f"{path}[{index}]")
    elif is_dataclass(value) and not isinstance(value, type):
        yield from leaves({each.name: getattr(value, each.name) for each in fields(value)}, path)
    elif hasattr(value, "__array__"):
        yield path, np.asarray(value)
    elif value is None or isinstance(value, bool | int | float | str | bytes | list | tuple):
        yield path, value
    elif getattr(value, "__dict__", None):
        yield from leaves(vars(value), path)
    else:
        yield path, f"<{type(value).__qualname__}>"


def digest_of(value: object) -> str:
    """SHA-256 over paths, types, shapes and bytes."""
    hasher = hashlib.sha256()
    for path, leaf in leaves(value):
        hasher.update(path.encode())
        array = np.asarray(leaf) if not isinstance(leaf, str | bytes | None) else None
        if array is None or array.dtype.kind == "O":
            hasher.update(repr(leaf).encode())
        else:
            hasher.update(f"{array.dtype.str}{array.shape}".encode())
            hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


def images_of(observation: Mapping[str, object]) -> dict[str, str]:
    """SHA-256 of the pixels of every camera image in an observation."""
    return {
        path.removeprefix("images."): hashlib.sha256(
            np.ascontiguousarray(leaf).tobytes()
        ).hexdigest()
        for path, leaf in leaves(observation)
        if isinstance(leaf, np.ndarray) and is_image(leaf)
    }


def is_image(array: np.ndarray) -> bool:
    return array.ndim == 3 and array.dtype == np.uint8 and array.shape[2] in (1, 3, 4)


def _is_numeric(values: list[object] | tuple[object, ...]) -> bool:
    return bool(values) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in values
    )
