"""One environment on an MCP simulator server."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
from pydantic import JsonValue

from openeta_exp.adapters.mcp_connection import CallFailure, McpCallError, McpConnection
from openeta_exp.adapters.simulator.tools import TOOLS, CallArgumentError, remote_call
from openeta_exp.domain.episode import Cleanup, CleanupStatus
from openeta_exp.domain.evidence import EnvironmentReceipt
from openeta_exp.domain.identity import ExecutionId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.tool import Diagnostic, ToolCall, ToolEffect, ToolResult, refused
from openeta_exp.errors import SimulatorError
from openeta_exp.wire.json_fields import FieldError
from openeta_exp.wire.openeta_tools import (
    error_text,
    parse_environment_reply,
    parse_reset,
    reached_target,
)

_EFFECTS = {tool.name: tool.effect for tool in TOOLS}
_OBSERVE = ToolCall(name="observe")
_CODES = {
    CallFailure.TIMEOUT: "simulator_mcp_transport_timeout",
    CallFailure.CONNECTION: "simulator_mcp_transport_connection_lost",
    CallFailure.PROTOCOL: "simulator_mcp_invalid_response",
    CallFailure.REFUSED: "simulator_mcp_call_failed",
    CallFailure.TOOL: "simulator_mcp_call_failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Seconds a call may take."""

    call_timeout_s: float = 300.0
    close_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentAddress:
    """How a server is told which environment is meant.

    Attributes:
        session_id: As the server gave it; absent if it gave none. With one, servers find the
            handle whatever connection a call comes over.
    """

    handle: str
    session_id: JsonValue = None

    @classmethod
    def from_reply(cls, created: JsonObject) -> EnvironmentAddress:
        """Raises: SimulatorError: The reply to `create_env` names no environment."""
        handle = created.get("handle")
        if not isinstance(handle, str) or not handle:
            raise SimulatorError(
                "create_env answered without a handle",
                code=_CODES[CallFailure.PROTOCOL],
                tool="create_env",
            )
        return cls(handle=handle, session_id=created.get("session_id") or None)

    def to_json(self) -> JsonObject:
        if self.session_id is None:
            return {"handle": self.handle}
        return {"handle": self.handle, "session_id": self.session_id}


class McpSimulatorSession:
    """See `ports.simulator.SimulatorSession`."""

    def __init__(
        self,
        connection: McpConnection,
        *,
        spec: EpisodeSpec,
        execution_id: ExecutionId,
        address: EnvironmentAddress,
        limits: CallLimits,
    ) -> None:
        self._connection = connection
        self._spec = spec
        self._execution_id = execution_id
        self._limits = limits
        self._handle = address.handle
        self._address = address.to_json()
        self._calls = 0
        self._success_at_reset = False
        self._closed: Cleanup | None = None
        self._closing = anyio.Lock()

    async def reset(self) -> Observation:
        reply = await self._send("reset_env", {"seed": self._spec.seed})
        try:
            observation = parse_reset(reply)
        except FieldError as error:
            raise SimulatorError(
                f"reset_env: {error}", code=_CODES[CallFailure.PROTOCOL], tool="reset_env"
            ) from error
        self._success_at_reset = observation.success_at_reset
        return observation

    async def observe(self) -> ToolResult:
        reply = await self._send("render_env", {})
        return self._result(_OBSERVE, "render_env", reply, outcome_unknown=False)

    async def call(self, call: ToolCall) -> ToolResult:
        try:
            remote = remote_call(call)
        except CallArgumentError as problem:
            return refused(
                call,
                _EFFECTS.get(call.name, ToolEffect.WORLD_MUTATING),
                code="simulator_mcp_argument_error",
                message=str(problem),
            )
        try:
            reply = await self._raw(remote.tool, remote.arguments)
        except McpCallError as error:
            if error.failure is CallFailure.REFUSED:
                return refused(
                    call,
                    ToolEffect.WORLD_MUTATING,
                    code=_CODES[error.failure],
                    message=str(error),
                )
            raise as_simulator_error(error, remote.tool, outcome_unknown=True) from error
        problem_text = error_text(reply)
        if problem_text is not None:
            self._check_fatal(reply, remote.tool, problem_text)
            return refused(
                call, ToolEffect.WORLD_MUTATING, code="simulator_mcp_error", message=problem_text
            )
        return self._result(call, remote.tool, reply, outcome_unknown=True)

    async def close(self) -> Cleanup:
        async with self._closing:
            if self._closed is None:
                # Said before the call, so that a closer that is cancelled leaves no second close.
                self._closed = Cleanup(
                    status=CleanupStatus.FAILED, message="closing was interrupted"
                )
                self._closed = await self._close_once()
            return self._closed

    async def _close_once(self) -> Cleanup:
        try:
            reply = await self._connection.call(
                "close_env", dict(self._address), timeout_s=self._limits.close_timeout_s
            )
        except McpCallError as error:
            return Cleanup(status=CleanupStatus.FAILED, message=str(error))
        problem = error_text(reply) or "; ".join(map(str, _list(reply.get("cleanup_errors"))))
        if problem:
            return Cleanup(status=CleanupStatus.FAILED, message=problem)
        return Cleanup(status=CleanupStatus.CLOSED)

    async def _raw(self, tool: str, arguments: JsonObject) -> JsonObject:
        return await self._connection.call(
            tool, {**arguments, **self._address}, timeout_s=self._limits.call_timeout_s
        )

    async def _send(self, tool: str, arguments: JsonObject) -> JsonObject:
        """A call that must succeed for the episode to go on."""
        try:
            reply = await self._raw(tool, arguments)
        except McpCallError as error:
            raise as_simulator_error(error, tool, outcome_unknown=False) from error
        problem = error_text(reply)
        if problem is not None:
            raise SimulatorError(
                f"{tool} on {self._spec.env_id}: {problem}", code="simulator_mcp_error", tool=tool
            )
        return reply

    def _check_fatal(self, reply: JsonObject, tool: str, problem: str) -> None:
        """A dead environment ends the episode; a refused motion is the planner's to handle."""
        if reply.get("fatal") is True or problem.startswith(
            ("Unknown", "Worker request failed", "Env was closed", "Step failed")
        ):
            raise SimulatorError(
                f"{tool} on {self._spec.env_id}: {problem}",
                code="simulator_mcp_error",
                tool=tool,
                outcome_unknown=True,
            )

    def _result(
        self, call: ToolCall, tool: str, reply: JsonObject, *, outcome_unknown: bool
    ) -> ToolResult:
        try:
            world = parse_environment_reply(reply)
        except FieldError as error:
            raise SimulatorError(
                f"{tool}: {error}",
                code=_CODES[CallFailure.PROTOCOL],
                tool=tool,
                outcome_unknown=outcome_unknown,
            ) from error
        receipt = EnvironmentReceipt(
            execution_id=self._execution_id,
            handle=self._handle,
            call_index=self._calls,
            tool=tool,
            reward=world.reward,
            terminated=world.terminated,
            truncated=world.truncated,
            tells_end=world.tells_end,
            success_at_reset=self._success_at_reset,
            collision=world.collision,
        )
        self._calls += 1
        reached = reached_target(reply) if tool in ("move_to", "follow_eef_trajectory") else None
        diagnostics = (
            (Diagnostic(code="simulator_mcp_target_not_reached", message="the motion fell short"),)
            if reached is False
            else ()
        )
        return ToolResult(
            call=call,
            effect=_EFFECTS.get(call.name, ToolEffect.READ_ONLY),
            success=True,
            outputs=_shown(tool, reply, reached, receipt, world.observation),
            diagnostics=diagnostics,
            observation=world.observation,
            receipt=receipt,
            reached_target=reached,
        )


def as_simulator_error(error: McpCallError, tool: str, *, outcome_unknown: bool) -> SimulatorError:
    return SimulatorError(
        str(error), code=_CODES[error.failure], tool=tool, outcome_unknown=outcome_unknown
    )


def _shown(
    tool: str,
    reply: JsonObject,
    reached: bool | None,
    receipt: EnvironmentReceipt,
    observation: Observation | None,
) -> JsonObject:
    """The part of a reply the planner reads: small scalars, no images."""
    shown: JsonObject = {"reward": receipt.reward, "terminated": receipt.terminated}
    if reached is not None:
        shown["reached_target"] = reached
    for name in ("target", "end", "steps_executed", "waypoints_completed", "collision"):
        if name in reply:
            shown[name] = reply[name]
    if observation is not None and tool in ("gripper_open", "gripper_close"):
        shown["gripper_openness"] = observation.robot.gripper_openness
    return shown


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
