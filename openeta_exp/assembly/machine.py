"""What this machine can carry."""

from __future__ import annotations

import os
from pathlib import Path

from openeta_exp.domain.manifest import Manifest

_LIBERO_PROCESS_BYTES = 1.4e9
_TABLETOP_PROCESS_BYTES = 0.25e9
_SHARE = 0.6
"""Of the free memory that warm environments may take."""


def environment_processes(manifest: Manifest, concurrency: int, *, take_turns: bool) -> int:
    """Environment processes to keep.

    Building a LIBERO environment takes seconds, resetting one a fraction. A batch goes through
    its tasks one after another and needs no more processes than run at once; a comparison lets
    tasks take turns, and a process kept warm for each task, memory allowing, is never rebuilt.
    """
    tasks = len({spec.env_id for spec in manifest.episodes}) if take_turns else 0
    each = _LIBERO_PROCESS_BYTES if uses_libero(manifest) else _TABLETOP_PROCESS_BYTES
    fitting = max(1, int(_free_bytes() * _SHARE / each))
    return max(1, min(max(tasks, concurrency), fitting, 32))


def uses_libero(manifest: Manifest) -> bool:
    """Whether an environment of it is one of LIBERO's and needs its software."""
    return any("libero" in spec.env_id for spec in manifest.episodes)


def _free_bytes() -> float:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
