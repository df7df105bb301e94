"""The program's processes in tests: every one carries its test's folder in its environment."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
MARK = "OPENETA_EXP_TEST_FOLDER"


def environment(folder: Path) -> dict[str, str]:
    """What a process of a test is started with; its own processes inherit it."""
    return {**os.environ, "PYTHONPATH": str(ROOT), MARK: str(folder)}


def of_test(folder: Path) -> list[psutil.Process]:
    """Those of this folder or one below it that are alive."""
    return [process for process in psutil.process_iter() if _belongs_to(process, folder)]


def mind_ctrl_c() -> None:
    """For `preexec_fn`: whoever starts the tests in the background has Ctrl-C ignored by all."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _belongs_to(process: psutil.Process, folder: Path) -> bool:
    try:
        mark = process.environ().get(MARK)
    except psutil.Error:
        return False
    return mark is not None and Path(mark).is_relative_to(folder)
