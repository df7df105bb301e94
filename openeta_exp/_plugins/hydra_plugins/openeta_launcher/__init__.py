"""The launcher `generations`: hands a multirun to `openeta_exp.assembly.sweep`.

Hydra imports this module at every start, and executes it before it is registered: nothing heavy
may be imported here, nor annotations be postponed (a dataclass would not find its module).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class GenerationsLauncherConf:
    """`hydra/launcher=generations`; it has no settings of its own, see `concurrency.lineages`."""

    _target_: str = "hydra_plugins.openeta_launcher.GenerationsLauncher"


ConfigStore.instance().store(
    group="hydra/launcher",
    name="generations",
    node=GenerationsLauncherConf,
    provider="openeta_exp",
)


class GenerationsLauncher(Launcher):
    """Runs each job as a process, because two jobs in one would share Hydra's global state."""

    def __init__(self) -> None:
        self._config: Optional[DictConfig] = None  # noqa: UP045
        self._context: Optional[HydraContext] = None  # noqa: UP045

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self._config, self._context = config, hydra_context

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        from openeta_exp.assembly.sweep import sweep
        from openeta_exp.multirun import read_jobs

        assert self._config is not None
        assert self._context is not None
        jobs = read_jobs(self._config, self._context.config_loader, job_overrides)
        exit_code = sweep(jobs)
        if exit_code:
            # Hydra has no other way to end a sweep with a code of one's own.
            raise SystemExit(exit_code)
        return [
            JobReturn(overrides=list(overrides), status=JobStatus.COMPLETED, _return_value=0)
            for overrides in job_overrides
        ]
