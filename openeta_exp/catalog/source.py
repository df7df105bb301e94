"""Where a module's source is, and which bytes decide what it does, without importing it."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from openeta_exp.domain.identity import Digest
from openeta_exp.domain.record import digest


@dataclass(frozen=True, slots=True)
class Source:
    """The code behind an import string.

    Attributes:
        files: Module name to file, the module itself first, then what it imports of its own
            package and of other code that is not installed.
        content_digest: Over module names and file contents.
    """

    files: tuple[tuple[str, Path], ...]
    content_digest: Digest


def find_source(module: str, search_path: Sequence[str] = ()) -> Source | None:
    """Locate a module and the local modules it imports; None if there is no Python source.

    Packages are not imported: only the file system is asked.
    """
    paths = (*search_path, *sys.path)
    if locate(module, paths) is None:
        return None
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop(0)
        file = locate(name, paths)
        if name in found or file is None:
            continue
        found[name] = file
        waiting += [
            each
            for each in _imported(file, name)
            if each.partition(".")[0] == module.partition(".")[0] or _is_local(each, paths)
        ]
    parts = [[name, _file_digest(file)] for name, file in sorted(found.items())]
    return Source(tuple(found.items()), Digest(digest([list(part) for part in parts])))


def locate(module: str, paths: Sequence[str]) -> Path | None:
    """The source file of a module, found like an import would, but importing no parent.

    Not by `PathFinder`, which cannot look into a namespace package that was not imported.
    """
    found: Path | None = None
    where: Sequence[str] = paths
    for part in module.split("."):
        found, where = _located(part, where)
        if found is None and not where:
            return None
    return found


def _located(name: str, where: Sequence[str]) -> tuple[Path | None, Sequence[str]]:
    """The file of one name, and where its own parts are; no file for a namespace package."""
    portions: list[str] = []
    for folder in where:
        package = Path(folder) / name
        if (package / "__init__.py").is_file():
            return package / "__init__.py", [str(package)]
        if (Path(folder) / f"{name}.py").is_file():
            return Path(folder) / f"{name}.py", []
        if package.is_dir():
            portions.append(str(package))
    return None, portions


def _is_local(module: str, paths: Sequence[str]) -> bool:
    """Whether a module is neither installed nor part of Python: its files may change any day."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return False
    file = locate(top, paths)
    if file is None:
        return False
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return (
        not any(file.is_relative_to(folder) for folder in installed)
        and "site-packages" not in file.parts
    )


def _imported(file: Path, module: str) -> Iterator[str]:
    """Names of the modules a file imports anywhere, also inside functions."""
    tree = parse(file)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=name, names=names, level=level):
                parents = package.split(".")
                base = ".".join(parents[: len(parents) - level + 1]) if level else ""
                start = ".".join(part for part in (base, name) if part)
                if start:
                    yield start
                    yield from (f"{start}.{each.name}" for each in names)


def parse(file: Path) -> ast.Module | None:
    """The syntax tree of a file; None if it cannot be read as Python."""
    try:
        return _parsed(file, file.stat().st_mtime_ns)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=256)
def _parsed(file: Path, modified_ns: int) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def _file_digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
