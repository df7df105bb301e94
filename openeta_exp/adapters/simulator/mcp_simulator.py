"""A simulator behind MCP: ours or any server with OpenETA's tool contract."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from pydantic import JsonValue

from openeta_exp.adapters.mcp_connection import McpCallError, McpConnection, Transport
from openeta_exp.adapters.simulator.mcp_session import (
    CallLimits,
    EnvironmentAddress,
    McpSimulatorSession,
    as_simulator_error,
)
from openeta_exp.adapters.simulator.tools import TOOLS
from openeta_exp.domain.identity import ExecutionId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.tool import ToolSpec
from openeta_exp.errors import SimulatorError
from openeta_exp.wire.json_fields import FieldError, objects_field
from openeta_exp.wire.openeta_tools import error_text

logger = logging.getLogger(__name__)

REQUIRED_TOOLS = frozenset(
    {
        "create_env",
        "reset_env",
        "render_env",
        "move_to",
        "gripper_open",
        "gripper_close",
        "close_env",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSettings:
    """What every environment shows."""

    cameras: tuple[str, ...] = ("agentview",)
    image_width: int = 256
    image_height: int = 256


class McpSimulator:
    """See `ports.simulator.Simulator`. One connection serves every episode."""

    def __init__(
        self,
        url: str,
        *,
        transport: Transport = Transport.AUTO,
        view: ViewSettings | None = None,
        limits: CallLimits | None = None,
    ) -> None:
        self._connection = McpConnection(url, transport=transport)
        self._view = view or ViewSettings()
        self._limits = limits or CallLimits()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return TOOLS

    async def describe(self) -> JsonObject:
        try:
            names = await self._connection.list_tools(timeout_s=self._limits.close_timeout_s)
        except McpCallError as error:
            raise as_simulator_error(error, "list_tools", outcome_unknown=False) from error
        missing = sorted(REQUIRED_TOOLS - names)
        if missing:
            raise SimulatorError(
                f"the simulator at {self._connection.public_url} lacks the tools {missing}",
                code="remote_capability_missing",
            )
        return {"url": self._connection.public_url, "tools": list[JsonValue](sorted(names))}

    async def knows(self, env_id: str) -> bool:
        reply = await self._ask("search_envs", {"query": env_id})
        try:
            return any(row.get("id") == env_id for row in objects_field(reply, "results"))
        except FieldError as error:
            raise SimulatorError(
                f"search_envs: {error}", code="simulator_mcp_invalid_response", tool="search_envs"
            ) from error

    @asynccontextmanager
    async def open(
        self, spec: EpisodeSpec, *, execution_id: ExecutionId
    ) -> AsyncIterator[McpSimulatorSession]:
        address = await self._create(spec, execution_id)
        session = McpSimulatorSession(
            self._connection,
            spec=spec,
            execution_id=execution_id,
            address=address,
            limits=self._limits,
        )
        try:
            yield session
        finally:
            with anyio.CancelScope(shield=True):
                await session.close()

    async def aclose(self) -> None:
        await self._connection.aclose()

    async def _create(self, spec: EpisodeSpec, execution_id: ExecutionId) -> EnvironmentAddress:
        heard = False
        try:
            created = await self._ask(
                "create_env",
                {
                    "env_id": spec.env_id,
                    "render_mode": "rgb_array",
                    "seed": spec.seed,
                    "task": spec.task,
                    "cameras": list(self._view.cameras),
                    "image_width": self._view.image_width,
                    "image_height": self._view.image_height,
                    # Names the environments of one execution on a shared server.
                    "session_id": str(execution_id),
                },
            )
            address = EnvironmentAddress.from_reply(created)
            heard = True
        finally:
            if not heard:
                with anyio.CancelScope(shield=True):
                    await self._close_unheard(execution_id)
        return address

    async def _close_unheard(self, execution_id: ExecutionId) -> None:
        """Give back what was created although the answer was lost, if the server tells of it.

        Otherwise it would keep a place on the server until it is swept.
        """
        ours: JsonObject = {"session_id": str(execution_id)}
        timeout_s = self._limits.close_timeout_s
        try:
            listed = await self._connection.call("list_active_envs", ours, timeout_s=timeout_s)
            if listed.get("session_id") != ours["session_id"]:
                return  # Whatever these are, they need not be ours.
            for row in objects_field(listed, "envs"):
                address: JsonObject = {"handle": row.get("handle"), **ours}
                await self._connection.call("close_env", address, timeout_s=timeout_s)
        except (McpCallError, FieldError) as error:
            logger.info("whether %s left an environment is not known: %s", execution_id, error)

    async def _ask(self, tool: str, arguments: JsonObject) -> JsonObject:
        try:
            reply = await self._connection.call(
                tool, arguments, timeout_s=self._limits.call_timeout_s
            )
        except McpCallError as error:
            raise as_simulator_error(error, tool, outcome_unknown=False) from error
        problem = error_text(reply)
        if problem is not None:
            raise SimulatorError(f"{tool}: {problem}", code="simulator_mcp_error", tool=tool)
        return reply
