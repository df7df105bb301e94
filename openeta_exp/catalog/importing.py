"""Import strings: the three places where a catalog may bring in code of its own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from openeta_exp.errors import CatalogError
from openeta_exp.wire.explain import nearest

_OWN_MODULES = {
    "refractal.generators": "openeta_exp.catalog.generators",
    "refractal.predicates": "openeta_exp.catalog.host.predicates",
}
"""Stand in for the modules of that package where it is not installed."""


def module_name(import_string: str) -> str:
    """The module an import string names, or ours that stands in for it."""
    name = import_string.partition(":")[0]
    if name in _OWN_MODULES and not is_installed(name.partition(".")[0]):
        return _OWN_MODULES[name]
    return name


def is_installed(package: str) -> bool:
    """Whether a top-level package can be imported. Imports nothing."""
    if package in sys.modules:
        return True
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:
        return False


def load(import_string: str) -> object:
    """Import what `package.module:Name` names.

    Raises:
        CatalogError: The module or the name does not exist, or importing it raised.
    """
    module, _, attribute = import_string.partition(":")
    with refusing(f"{import_string} cannot be imported"):
        found: object = importlib.import_module(module_name(import_string))
        for part in attribute.split("."):
            if not hasattr(found, part):
                hint = nearest(part, _own_names(found))
                raise CatalogError(f"{import_string}: {module} has no {part}; {hint}")
            found = getattr(found, part)
    return found


def _own_names(found: object) -> list[str]:
    """What a module offers that it did not import itself."""
    name = getattr(found, "__name__", None)
    return [
        key
        for key, value in vars(found).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == name
    ]


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn whatever a user's code raises into a mistake of the user's."""
    with _Refusal(what):
        yield


class _Refusal:
    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, CatalogError):
            raise CatalogError(f"{self._what}: {type(error).__name__}: {error}") from error


@contextmanager
def searching(paths: Sequence[str]) -> Iterator[None]:
    """Let imports look into a catalog's own directories first."""
    added = [path for path in paths if path not in sys.path]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for path in added:
            sys.path.remove(path)
