"""Who broke an episode: the adapter, the policy, or the catalog's own judges."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from types import TracebackType

from openeta_exp.errors import OpenEtaError

ADAPTER = "simulator"
POLICY = "policy_server"

_OWNERS = {
    "build_adapter": ADAPTER,
    "get_tasks": ADAPTER,
    "reset": ADAPTER,
    "make_obs": ADAPTER,
    "step": ADAPTER,
    "check_done": ADAPTER,
    "get_step_result": ADAPTER,
    "judge": ADAPTER,
    "perturb": ADAPTER,
    "build_policy": POLICY,
    "start_episode": POLICY,
    "act": POLICY,
    "end_episode": POLICY,
}


_PACKAGE = Path(__file__).parents[2]
_GO_BETWEENS = (
    *(str(_PACKAGE / "catalog" / "host" / f"{name}.py") for name in ("adapter", "tracking")),
    str(_PACKAGE / "adapters" / "policy" / "in_process.py"),
    "<frozen importlib",
    importlib.__file__,
)
"""Import, call or watch the code of others and raise in its name."""


class BrokenEpisodeError(OpenEtaError):
    """There is no verdict.

    Attributes:
        failure_class: `simulator` or `policy_server`.
        code: Stable snake_case identifier.
        error_type: Name of the original exception's class.
    """

    def __init__(
        self, message: str, *, failure_class: str, code: str, error_type: str = "BrokenEpisodeError"
    ) -> None:
        super().__init__(message)
        self.failure_class = failure_class
        self.code = code
        self.error_type = error_type


class Blame:
    """Turns whatever the code of others raises into `BrokenEpisodeError`, by the phase it was in.

    Set `phase` before every call; the block is left with one kind of exception only.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase

    def __enter__(self) -> Blame:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, BrokenEpisodeError):
            raise BrokenEpisodeError(
                f"{self.phase}: {described(error)}",
                failure_class=_OWNERS[self.phase],
                code=getattr(error, "code", None) or f"{_prefix(self.phase)}_failed",
                error_type=type(error).__name__,
            ) from error


def described(error: BaseException) -> str:
    """An exception in one line, with the innermost place in code that can be to blame for it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_GO_BETWEENS)
    ]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _prefix(phase: str) -> str:
    return f"policy_{phase}" if _OWNERS[phase] == POLICY else f"adapter_{phase}"
