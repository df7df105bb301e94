"""The MCP skin over the service: names, schemas and the JSON of results and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mcp.server import Server
from mcp_types import CallToolResult
from pydantic import ValidationError

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record
from openeta_exp.embedded.mcp_face import mcp_server, text_result
from openeta_exp.embedded.simulator.arguments import (
    CloseEnv,
    CreateEnv,
    FollowEefTrajectory,
    ListActiveEnvs,
    ListEnvs,
    MoveGripper,
    MoveTo,
    ObserveEnv,
    ResetEnv,
    SearchEnvs,
    StepEnv,
    ToolArguments,
)
from openeta_exp.embedded.simulator.replies import ErrorReply
from openeta_exp.embedded.simulator.service import SimulatorService, ToolRefusal
from openeta_exp.errors import SimulatorError

Arguments = TypeVar("Arguments", bound=ToolArguments)


@dataclass(frozen=True, slots=True)
class _Tool(Generic[Arguments]):
    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Arguments], Awaitable[Record | str]]

    async def __call__(self, given: object) -> Record | str:
        """Raises: pydantic.ValidationError: If the arguments do not fit."""
        return await self.run(self.arguments.model_validate(given))


def build_server(service: SimulatorService) -> Server:
    """An MCP server whose tools call `service`. Serves any number of connections.

    What a tool cannot do is a regular result with an `error` key, as clients of the original
    expect; arguments that do not fit the schema and unknown tools are `isError` results.
    """
    tools = {tool.name: tool for tool in _tools(service)}

    async def call(name: str, given: JsonObject) -> CallToolResult:
        try:
            reply = await tools[name](given)
        except ValidationError as error:
            return text_result(f"Error executing tool {name}: {error}", is_error=True)
        except SimulatorError as error:
            handle = given.get("handle")
            reply = ErrorReply(
                error=str(error),
                code=error.code,
                handle=handle if isinstance(handle, str) else None,
                fatal=not isinstance(error, ToolRefusal),
            )
        if isinstance(reply, str):
            return text_result(reply)
        return text_result(reply.model_dump_json(exclude_none=True))

    return mcp_server("openeta_exp-simulator", tools, call)


def _tools(service: SimulatorService) -> tuple[_Tool, ...]:  # type: ignore[type-arg]
    return (
        _Tool("list_envs", "List environments.", ListEnvs, service.list_envs),
        _Tool(
            "search_envs",
            "Find environments whose id or instruction holds every word.",
            SearchEnvs,
            service.search_envs,
        ),
        _Tool(
            "create_env",
            "Build an environment. It does not reset; call reset_env next.",
            CreateEnv,
            service.create_env,
        ),
        _Tool(
            "reset_env",
            "Start an episode from the state the seed selects; returns an observation.",
            ResetEnv,
            service.reset_env,
        ),
        _Tool(
            "step_env",
            "Repeat one 7-number action for num_steps control steps.",
            StepEnv,
            service.step_env,
        ),
        _Tool(
            "move_to",
            "Move the gripper to a world pose (metres, degrees) in a closed loop.",
            MoveTo,
            service.move_to,
        ),
        _Tool(
            "follow_eef_trajectory",
            "Visit one to five world poses in order, stopping at the first miss.",
            FollowEefTrajectory,
            service.follow_eef_trajectory,
        ),
        _Tool("gripper_open", "Open the fingers.", MoveGripper, service.gripper_open),
        _Tool("gripper_close", "Close the fingers.", MoveGripper, service.gripper_close),
        _Tool(
            "observe_env",
            "Observe without advancing time; render=false leaves the images out.",
            ObserveEnv,
            service.observe_env,
        ),
        _Tool(
            "render_env",
            "The same as observe_env.",
            ObserveEnv,
            service.observe_env,
        ),
        _Tool("close_env", "Close an environment; idempotent.", CloseEnv, service.close_env),
        _Tool(
            "list_active_envs",
            "List the environments that are open.",
            ListActiveEnvs,
            service.list_active_envs,
        ),
    )
