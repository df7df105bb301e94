"""The simulator: worlds that are opened, reset, acted on and closed."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from openeta_exp.domain.episode import Cleanup
from openeta_exp.domain.identity import ExecutionId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.tool import ToolCall, ToolResult, ToolSpec


class SimulatorSession(Protocol):
    """One environment, owned by one episode."""

    async def reset(self) -> Observation:
        """Bring the environment to the initial state of the spec's seed.

        Raises:
            SimulatorError: The environment could not be reset.
        """
        ...

    async def observe(self) -> ToolResult:
        """Look again without moving; the result carries an observation and a receipt.

        Raises:
            SimulatorError: No reply.
        """
        ...

    async def call(self, call: ToolCall) -> ToolResult:
        """Run one of `Simulator.tools` to completion.

        World-changing calls are never retried here: a lost reply leaves the world unknown, and
        only the episode may decide to look again. Bad arguments come back as an unsuccessful
        result, not as an exception.

        Raises:
            SimulatorError: The call did not complete.
        """
        ...

    async def close(self) -> Cleanup:
        """Give the environment back. Idempotent; sends at most one close; never raises for a
        simulator that does not answer, but says so in the result."""
        ...


class Simulator(Protocol):
    """A source of environments. May be shared by any number of episodes."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """World-changing tools a planner may call."""
        ...

    async def describe(self) -> JsonObject:
        """What the simulator says of itself: server, versions, GL, render quality, tools.

        Raises:
            SimulatorError: It could not be reached or lacks a required tool.
        """
        ...

    async def knows(self, env_id: str) -> bool:
        """Whether `env_id` can be created.

        Raises:
            SimulatorError: It could not be asked.
        """
        ...

    def open(
        self, spec: EpisodeSpec, *, execution_id: ExecutionId
    ) -> AbstractAsyncContextManager[SimulatorSession]:
        """Create the spec's environment; leaving the context closes it, whatever happened.

        Entering raises `SimulatorError` if the environment could not be created.
        """
        ...

    async def aclose(self) -> None:
        """End connections and, for an embedded simulator, its processes."""
        ...
