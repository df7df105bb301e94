from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.errors import StoreError


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"

    write_atomically(path, b"first")
    write_atomically(path, b"second")

    assert path.read_bytes() == b"second"
    assert [each.name for each in path.parent.iterdir()] == ["result.json"]


def test_the_old_file_stays_when_the_new_one_cannot_be_put_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    (path / "a folder of that name").mkdir(parents=True)

    with pytest.raises(StoreError, match=r"result\.json: cannot be written"):
        write_atomically(path, b"new")

    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]
    assert path.is_dir()


def test_a_full_disk_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        write_atomically(Path("/dev/full/result.json"), b"new")
