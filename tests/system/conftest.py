"""What holds after every test that starts the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import of_test


@pytest.fixture(autouse=True)
def no_process_is_left_behind(tmp_path: Path) -> Iterator[None]:
    yield
    _, alive = psutil.wait_procs(of_test(tmp_path), timeout=30)
    assert not alive, [process.cmdline() for process in alive]
