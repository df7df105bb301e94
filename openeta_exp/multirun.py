"""Many jobs from one command line: which launcher runs them, and what each of them is."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hydra.conf import HydraConf
from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig

from openeta_exp.composition import load_composed, override_path
from openeta_exp.errors import SettingsError

if TYPE_CHECKING:
    from openeta_exp.assembly.sweep import AskedJob


_FLAGS = ("-m", "--multirun")


def with_launcher(arguments: Sequence[str]) -> list[str]:
    """The arguments, with the launcher that gives every lineage of a sweep an experiment of its own
    and runs its generations in order.

    `-m` goes first: argparse refuses whatever stands on the other side of it.
    """
    flags = [each for each in arguments if each in _FLAGS]
    arguments = [*flags, *(each for each in arguments if each not in _FLAGS)]
    is_multirun = bool(flags) or "hydra.mode=MULTIRUN" in arguments
    names = [each.lstrip("+~").partition("=")[0] for each in arguments]
    overrides = [each for each in arguments if "=" in each and not each.startswith("-")]
    if not is_multirun or not overrides or "hydra/launcher" in names:
        return list(arguments)
    # Beside another one, because argparse takes no override after `--cfg job`.
    place = arguments.index(overrides[0])
    return [*arguments[:place], "hydra/launcher=generations", *arguments[place:]]


def find_plugins() -> None:
    """Let Hydra find this package's launcher, in a checkout and in an installation alike.

    Not installed as a top-level `hydra_plugins`, where every Hydra program of the environment
    would load it.
    """
    folder = str(Path(__file__).resolve().parent / "_plugins")
    if folder not in sys.path:
        sys.path.append(folder)
        # Launchers that pickle jobs into other processes name it there too.
        inherited = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{inherited}{os.pathsep}{folder}" if inherited else folder


def read_jobs(
    config: DictConfig, loader: ConfigLoader, jobs: Sequence[Sequence[str]]
) -> tuple[AskedJob, ...]:
    """The jobs of a multirun, every one of them checked before the first is run.

    Args:
        config: What `hydra.main` composed, without what is swept.
        jobs: Overrides of each job.

    Raises:
        SettingsError: With one sentence per mistake of any job.
    """
    from openeta_exp.assembly.sweep import AskedJob

    asked: list[AskedJob] = []
    problems: dict[str, None] = {}
    for overrides in jobs:
        composed = loader.load_sweep_config(config, list(overrides))
        try:
            settings = load_composed(composed, overrides=overrides)
        except SettingsError as error:
            problems |= dict.fromkeys(error.problems)
            continue
        choices = {".".join(override_path(each)): each.partition("=")[2] for each in overrides}
        arguments = (*_where_configured(config), *overrides)
        asked.append(AskedJob(settings=settings, choices=choices, arguments=arguments))
    if problems:
        raise SettingsError(list(problems))
    return tuple(asked)


def _where_configured(config: DictConfig) -> list[str]:
    """Arguments with which another process reads the same files in the same way."""
    hydra = cast(HydraConf, config.hydra)
    places = [
        f"--config-dir={source.path}"
        for source in hydra.runtime.config_sources
        if source.provider == "command-line"
    ]
    of_sweep = ("hydra/launcher", "hydra/sweeper", "hydra.launcher", "hydra.sweep", "hydra.mode")
    options = [each for each in hydra.overrides.hydra if not each.lstrip("+~").startswith(of_sweep)]
    return [f"--config-name={hydra.job.config_name}", *places, *options]
