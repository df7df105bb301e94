"""Where an agent's Python runs: a process that can reach nothing but its own folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What one run may use."""

    duration_s: float = 10.0
    memory_bytes: int = 256 * 1024 * 1024
    output_characters: int = 20_000
    """Of what is printed, and of the value that is returned; a longer value is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRun:
    """What came of a piece of Python.

    Attributes:
        value: Of the last expression, as JSON, or as the text Python writes for it where JSON has
            no form for it; None if there is no such expression.
        printed: What it wrote, cut at the limit.
        code: None if it ran to its end, else why not (`python_error`, `sandbox_timeout`,
            `sandbox_memory`, `sandbox_limit`, `sandbox_crashed`, `sandbox_forbidden`,
            `sandbox_output`).
        message: What went wrong, for the planner.
    """

    value: JsonValue
    printed: str
    code: str | None = None
    message: str = ""


class Sandbox(Protocol):
    """Runs untrusted Python. May be shared by any number of episodes.

    No network, no environment variables, no process of its own making, no file outside `folder`;
    and nothing a run leaves behind in memory is there in the next one.
    """

    async def run(
        self, source: str, *, inputs: Mapping[str, JsonValue], folder: Path, limits: SandboxLimits
    ) -> SandboxRun:
        """Run a piece of Python to its end or to a limit; never raises for what it does.

        Raises:
            StoreError: The folder cannot be opened.
        """
        ...

    async def aclose(self) -> None: ...
