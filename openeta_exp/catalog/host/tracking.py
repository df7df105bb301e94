"""Dictionaries that remember who asked them for what: the adapter's task, the policy's input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openeta_exp.catalog.host.values import Json, plain


class Access:
    """What was asked of a tracked dictionary and of everything inside it.

    Attributes:
        read: Keys whose value was taken.
        missed: Keys that were asked for and are not there.
        defaulted: Of the missed ones, those that were replaced by a default, with it.
        optional: Keys that are there but were read with `.get`, so that their absence would pass.
        written: Keys that were set or removed.
        bulk: The dictionary was read as a whole, so `read` says nothing about single keys.
    """

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.missed: set[str] = set()
        self.defaulted: dict[str, str] = {}
        self.optional: set[str] = set()
        self.written: set[str] = set()
        self.bulk = False

    def report(self) -> dict[str, Json]:
        return {
            "read": sorted(self.read),
            "missed": sorted(self.missed),
            "defaulted": plain(dict(sorted(self.defaulted.items()))),
            "optional": sorted(self.optional),
            "written": sorted(self.written),
            "bulk": self.bulk,
        }


class Tracked(dict[str, Any]):
    """A dictionary in every respect, nested mappings included, that fills in an `Access`."""

    def __init__(
        self, content: Mapping[str, Any], access: Access, prefix: str = "", *, owned: bool = True
    ) -> None:
        super().__init__(
            (key, Tracked(value, access, f"{prefix}{key}."))
            if type(value) is dict
            else (key, value)
            for key, value in content.items()
        )
        self._access = access
        self._prefix = prefix
        self._owned = owned

    def _path(self, key: object) -> str:
        return f"{self._prefix}{key}"

    def __getitem__(self, key: str) -> Any:
        try:
            value = super().__getitem__(key)
        except KeyError:
            self._access.missed.add(self._path(key))
            raise
        self._access.read.add(self._path(key))
        return value

    def get(self, key: str, default: Any = None) -> Any:
        path = self._path(key)
        if super().__contains__(key):
            self._access.read.add(path)
            self._access.optional.add(path)
            return super().__getitem__(key)
        self._access.missed.add(path)
        self._access.defaulted[path] = type(default).__name__ if default is None else repr(default)
        return default

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        if not found:
            self._access.missed.add(self._path(key))
        return found

    def __iter__(self) -> Iterator[str]:
        self._access.bulk = True
        return super().__iter__()

    def keys(self) -> Any:
        self._access.bulk = True
        return super().keys()

    def values(self) -> Any:
        self._access.bulk = True
        return super().values()

    def items(self) -> Any:
        self._access.bulk = True
        return super().items()

    def copy(self) -> dict[str, Any]:
        """A copy the borrower may write to; its reads still count."""
        return Tracked(dict(super().items()), self._access, self._prefix, owned=False)

    def __copy__(self) -> dict[str, Any]:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        self._access.bulk = True
        return (dict, (dict(super().items()),))

    def __setitem__(self, key: str, value: Any) -> None:
        self._wrote(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._wrote(key)
        super().__delitem__(key)

    def pop(self, key: str, *default: Any) -> Any:
        if super().__contains__(key):
            self._wrote(key)
            self._access.read.add(self._path(key))
        else:
            self._access.missed.add(self._path(key))
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if super().__contains__(key):
            return self.get(key)
        self._access.missed.add(self._path(key))
        self._access.defaulted[self._path(key)] = repr(default)
        self[key] = default
        return default

    def update(self, *others: Any, **named: Any) -> None:
        for key, value in dict(*others, **named).items():
            self[key] = value

    def popitem(self) -> tuple[str, Any]:
        key, value = super().popitem()
        self._wrote(key)
        return key, value

    def clear(self) -> None:
        for key in list(super().keys()):
            self._wrote(key)
        super().clear()

    def __ior__(self, other: Any) -> Tracked:  # type: ignore[override,misc]
        self.update(other)
        return self

    def _wrote(self, key: str) -> None:
        if self._owned:
            self._access.written.add(self._path(key))
