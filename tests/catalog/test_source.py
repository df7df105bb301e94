"""Where a module's source is, without importing it or its parents."""

from __future__ import annotations

import sys
from pathlib import Path

from openeta_exp.catalog.source import find_source, locate


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_a_module_of_a_namespace_package_is_found_though_nothing_was_imported(
    tmp_path: Path,
) -> None:
    write(tmp_path, spread__deep__policy="from spread.deep import parts", spread__deep__parts="")

    source = find_source("spread.deep.policy", [str(tmp_path)])

    assert source is not None
    assert [name for name, _ in source.files] == ["spread.deep.policy", "spread.deep.parts"]
    assert "spread" not in sys.modules


def test_a_package_hides_a_module_and_the_first_folder_the_others(tmp_path: Path) -> None:
    first = write(tmp_path / "first", thing__init="")
    (first / "thing" / "init.py").rename(first / "thing" / "__init__.py")
    second = write(tmp_path / "second", thing="")

    assert locate("thing", [str(first), str(second)]) == first / "thing" / "__init__.py"
    assert locate("thing", [str(second), str(first)]) == second / "thing.py"
    assert locate("thing.absent", [str(first)]) is None
    assert locate("absent.thing", [str(first)]) is None
