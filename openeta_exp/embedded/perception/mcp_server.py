"""The MCP skin over the service: names, schemas and the envelope of answers and refusals."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mcp.server import Server
from mcp_types import CallToolResult

from openeta_exp.domain.identity import JsonObject
from openeta_exp.embedded.mcp_face import mcp_server, text_result
from openeta_exp.embedded.perception.arguments import (
    DetectGrasps,
    Refusal,
    Segment,
    SegmentPoints,
    ToolArguments,
    parse,
)
from openeta_exp.embedded.perception.service import (
    BACKEND,
    GRASP_MODEL,
    SEGMENTATION_MODEL,
    PerceptionService,
)
from openeta_exp.wire.perception_tools import FailureDetails, failure

ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool(Generic[ArgumentsT]):
    name: str
    description: str
    arguments: type[ArgumentsT]
    run: Callable[[ArgumentsT], Awaitable[JsonObject]]
    introduction: FailureDetails
    """How refusals introduce the tool."""

    async def __call__(self, given: JsonObject) -> JsonObject:
        try:
            return await self.run(parse(self.arguments, given))
        except Refusal as refusal:
            details = self.introduction.model_copy(update={"reason": refusal.reason})
            return failure(str(refusal), details)


def build_server(service: PerceptionService) -> Server:
    """An MCP server whose tools call `service`. Serves any number of connections.

    A refusal is a regular result with `success: false` and `details.reason`, also for arguments
    that do not fit; only an unknown tool is an `isError` result.
    """
    tools = {tool.name: tool for tool in _tools(service)}

    async def call(name: str, given: JsonObject) -> CallToolResult:
        return text_result(json.dumps(await tools[name](given)))

    return mcp_server("openeta_exp-perception", tools, call)


def _tools(service: PerceptionService) -> tuple[_Tool, ...]:  # type: ignore[type-arg]
    sam3 = FailureDetails(tool="sam3", backend=BACKEND, model=SEGMENTATION_MODEL)
    anygrasp = FailureDetails(tool="anygrasp", backend=BACKEND, model=GRASP_MODEL)
    return (
        _Tool(
            name="segment",
            description="Masks of everything in a simulator frame that a phrase names.",
            arguments=Segment,
            run=service.segment,
            introduction=sam3,
        ),
        _Tool(
            name="segment_points",
            description="Three ranked masks for points on a simulator frame.",
            arguments=SegmentPoints,
            run=service.segment_points,
            introduction=sam3,
        ),
        _Tool(
            name="detect_grasps",
            description="Ranked top-down grasps from a simulator frame's depth, camera frame.",
            arguments=DetectGrasps,
            run=service.detect_grasps,
            introduction=anygrasp,
        ),
    )
