"""The command line: `python -m openeta_exp [+experiment=NAME] [GROUP=OPTION] [FIELD=VALUE]`.

Exit codes: 0 done, 1 a bug in this package (with its traceback), 2 invalid input, 3 something
outside broke or a cap of `money` was reached (0 for `iterate`, which stops there as it was told),
4 a gate was not met where one was required or a comparison would mean nothing, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import hydra
from omegaconf import DictConfig

from openeta_exp.assembly.ending import end_with_starter
from openeta_exp.composition import (
    COMPOSITION_ERRORS,
    VERSION_BASE,
    as_additions,
    composition_error,
    conf_dir,
    load_job_settings,
)
from openeta_exp.errors import InfrastructureError, SpendingCapError, StoreError, UserError
from openeta_exp.multirun import find_plugins, with_launcher
from openeta_exp.wire.override_text import override_text

if TYPE_CHECKING:
    from openeta_exp.settings.experiment import ExperimentSettings

EXIT_INVALID_INPUT = 2
EXIT_INFRASTRUCTURE = 3
EXIT_INTERRUPTED = 130
_READING = ("inspect", "pending", "power", "validate")
_CHANGING = ("approve", "deny", "resume", "rollback", "track")
"""Commands on something that is there already, and that keeps the record of them."""
_TRACELESS = tuple(f"command={kind}" for kind in (*_READING, *_CHANGING))


def main() -> None:
    """Entry point of `openeta-exp` and `python -m openeta_exp`."""
    end_with_starter()
    raise SystemExit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Compose, check, execute; return the exit code."""
    codes: list[int] = []

    def job(config: DictConfig) -> None:
        codes.append(guarded(lambda: execute(load_job_settings(config))))

    codes.append(guarded(lambda: _compose_and_start(job, arguments)))
    return max(codes)


def _compose_and_start(job: Callable[[DictConfig], None], arguments: Sequence[str]) -> int:
    # Hydra would print its own errors its own way, and end with exit code 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    begun = False

    def begin(config: DictConfig) -> None:
        nonlocal begun
        begun = True
        job(config)

    with contextlib.ExitStack() as stack:
        sys.argv[1:] = with_launcher(_without_trace(as_additions(arguments), stack))
        find_plugins()
        start = hydra.main(
            version_base=VERSION_BASE, config_path=str(conf_dir()), config_name="config"
        )(begin)
        try:
            start()
        except COMPOSITION_ERRORS as error:
            raise composition_error(error, arguments) from error
        except OSError as error:
            if begun:
                raise
            # Hydra makes its own folder below `output_root` before anything of ours is asked.
            raise StoreError(
                f"{error.filename or 'output_root'}: cannot be written: {error.strerror or error}; "
                "choose another output_root"
            ) from error
    return 0


def _without_trace(arguments: Sequence[str], stack: contextlib.ExitStack) -> list[str]:
    """The arguments; a command on what is there leaves nothing of Hydra's below `output_root`."""
    traceless = next((each for each in arguments if each in _TRACELESS), None)
    if traceless is None or any("hydra.run.dir=" in each for each in arguments):
        return list(arguments)
    # A folder is made in any case. What is asked for may lie where nothing can be written, and a
    # misspelt place must not come into being.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="openeta-exp-"))
    place = arguments.index(traceless)
    elsewhere = (
        f"hydra.run.dir={override_text(folder)}",
        # The folder goes with the command; no logger may write there afterwards.
        "hydra.job_logging.root.handlers=[console]",
    )
    return [*arguments[:place], *elsewhere, *arguments[place:]]


def execute(settings: ExperimentSettings) -> int:
    """Everything heavy is imported from here on, and not for `--help` or `--cfg`."""
    from openeta_exp.assembly import execute

    return execute(settings)


def guarded(action: Callable[[], int]) -> int:
    """Run an action; what the user or the outside world did wrong becomes an exit code."""
    code = 0
    try:
        code = action()
    except* UserError as group:
        _report(group)
        code = EXIT_INVALID_INPUT
    except* InfrastructureError as group:
        _report(group)
        code = EXIT_INFRASTRUCTURE
    except* SpendingCapError as group:
        _report(group)
        code = EXIT_INFRASTRUCTURE
    except* KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    return code


def _report(group: BaseExceptionGroup[BaseException]) -> None:
    # What stops everything in flight is said once.
    for line in dict.fromkeys(_lines(group)):
        sys.stderr.write(f"{line}\n")


def _lines(group: BaseExceptionGroup[BaseException]) -> Iterator[str]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _lines(error)
        else:
            yield str(error)
