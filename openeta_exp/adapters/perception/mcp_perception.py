"""SAM3 and AnyGrasp servers over MCP, or one embedded server that speaks both contracts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

from openeta_exp.adapters.mcp_connection import (
    CallFailure,
    McpCallError,
    McpConnection,
    Transport,
)
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import CameraFrame
from openeta_exp.errors import PerceptionError
from openeta_exp.ports.perception import Answer, Detection, GraspCandidate, Point
from openeta_exp.wire.base64_text import encode_base64
from openeta_exp.wire.perception_tools import (
    FailureDetails,
    Reply,
    ReplyError,
    first_problem,
    parse_reply,
)

FoundT = TypeVar("FoundT")

_SAM3, _ANYGRASP = "sam3", "anygrasp"
_TOOLS = {_SAM3: ("segment", "segment_points"), _ANYGRASP: ("detect_grasps",)}
_DESCRIBE_TIMEOUT_S = 30.0
_DEPTH_SCALE = 1000.0

_BROKEN = frozenset(
    {
        "artifact_encode_failed",
        "backend_unavailable",
        "inconsistent_detection_outputs",
        "inconsistent_grasp_outputs",
        "model_inference_failed",
        "model_load_failed",
        "unknown_error",
    }
)
"""Reasons that say nothing about the scene, only that the service broke."""

_CODES = {
    CallFailure.TIMEOUT: "perception_mcp_timeout",
    CallFailure.CONNECTION: "perception_mcp_connection_lost",
    CallFailure.PROTOCOL: "perception_mcp_invalid_response",
    CallFailure.REFUSED: "perception_mcp_call_failed",
    CallFailure.TOOL: "perception_mcp_call_failed",
}


class McpPerception:
    """See `ports.perception.Perception`.

    One connection per server, shared by every episode and opened by the first call. A call that
    lost its connection is sent once more over a new one: looking changes nothing.

    Args:
        sam3_url: None if there is none; segmentation is then refused with `backend_unavailable`.
        anygrasp_url: Likewise for grasps.
        depth_cutoff_factor: 1 to 4. AnyGrasp sees nothing beyond one metre; the scene is sent
            smaller by this factor and the answer enlarged again.
    """

    def __init__(
        self,
        sam3_url: str | None,
        anygrasp_url: str | None,
        timeout_s: float = 600.0,
        *,
        transport: Transport = Transport.AUTO,
        depth_cutoff_factor: float = 1.0,
    ) -> None:
        if not 1.0 <= depth_cutoff_factor <= 4.0:
            raise ValueError(f"depth_cutoff_factor must lie in [1, 4], is {depth_cutoff_factor}")
        by_url = {
            url: McpConnection(url, transport=transport)
            for url in (sam3_url, anygrasp_url)
            if url is not None
        }
        self._connections = {
            service: by_url[url]
            for service, url in ((_SAM3, sam3_url), (_ANYGRASP, anygrasp_url))
            if url is not None
        }
        self._timeout_s = timeout_s
        self._stretch = depth_cutoff_factor

    async def segment(self, frame: CameraFrame, *, prompt: str) -> Answer[Detection]:
        from openeta_exp.adapters.perception.checking import detections

        arguments: JsonObject = {
            "image_base64": encode_base64(frame.rgb_png),
            "prompt": prompt,
            "image_format": "png",
        }
        return await self._ask(
            _SAM3, "segment", arguments, read=lambda details: detections(details, frame)
        )

    async def segment_points(
        self, frame: CameraFrame, *, points: tuple[Point, ...]
    ) -> Answer[Detection]:
        from openeta_exp.adapters.perception.checking import point_detections

        arguments: JsonObject = {
            "image_base64": encode_base64(frame.rgb_png),
            "points": [{"x": point.x, "y": point.y, "label": point.label} for point in points],
            "image_format": "png",
        }
        return await self._ask(
            _SAM3,
            "segment_points",
            arguments,
            read=lambda details: point_detections(details, frame, points),
        )

    async def detect_grasps(
        self,
        frame: CameraFrame,
        *,
        mask_png: bytes | None,
        collision_detection: bool = True,
    ) -> Answer[GraspCandidate]:
        from openeta_exp.adapters.perception.checking import grasps

        if frame.depth_png is None:
            return Answer(
                found=(),
                stamp="",
                reason="depth_decode_failed",
                message=f"camera {frame.frame_id} gives no depth, and grasps need it",
            )
        pinhole = frame.intrinsics
        arguments: JsonObject = {
            "rgb": _picture(frame.rgb_png),
            "depth": _picture(frame.depth_png),
            "intrinsics": {
                "fx": pinhole.fx,
                "fy": pinhole.fy,
                "cx": pinhole.cx,
                "cy": pinhole.cy,
                "scale": _DEPTH_SCALE * self._stretch,
            },
            "mode": "scene" if mask_png is None else "targeted",
            "collision_detection": collision_detection,
        }
        if mask_png is not None:
            arguments["target_mask"] = _picture(mask_png)
        answer = await self._ask(
            _ANYGRASP,
            "detect_grasps",
            arguments,
            read=lambda details: grasps(details, stretch=self._stretch),
        )
        if answer.reason is None and not answer.found:
            return Answer(
                found=(),
                stamp=answer.stamp,
                reason="no_grasp_candidates",
                message="the service found no grasp",
            )
        return answer

    async def describe(self) -> JsonObject:
        services: JsonObject = {}
        for service, connection in self._connections.items():
            try:
                tools = await connection.list_tools(timeout_s=_DESCRIBE_TIMEOUT_S)
            except McpCallError as error:
                raise _as_perception_error(service, error) from error
            missing = [tool for tool in _TOOLS[service] if tool not in tools]
            if missing:
                raise PerceptionError(
                    f"the {service} server lacks {', '.join(missing)}",
                    code="remote_capability_missing",
                )
            services[service] = {
                "url": connection.public_url,
                "tools": list(_TOOLS[service]),
            }
        return services

    async def aclose(self) -> None:
        for connection in dict.fromkeys(self._connections.values()):
            await connection.aclose()

    async def _ask(
        self,
        service: str,
        tool: str,
        arguments: JsonObject,
        *,
        read: Callable[[JsonObject], Answer[FoundT]],
    ) -> Answer[FoundT]:
        connection = self._connections.get(service)
        if connection is None:
            return Answer(
                found=(),
                stamp="",
                reason="backend_unavailable",
                message=f"no {service} server is configured",
            )
        try:
            reply = parse_reply(await self._call(connection, tool, arguments))
            if not reply.success:
                return _refused(service, reply)
            return read(reply.details)
        except McpCallError as error:
            raise _as_perception_error(service, error) from error
        except ReplyError as error:
            raise PerceptionError(
                f"{service}: {error}",
                code="inconsistent_grasp_outputs"
                if service == _ANYGRASP
                else "inconsistent_detection_outputs",
            ) from error

    async def _call(
        self, connection: McpConnection, tool: str, arguments: JsonObject
    ) -> JsonObject:
        try:
            return await connection.call(tool, arguments, timeout_s=self._timeout_s)
        except McpCallError as error:
            if error.failure is not CallFailure.CONNECTION:
                raise
        return await connection.call(tool, arguments, timeout_s=self._timeout_s)


def _refused(service: str, reply: Reply) -> Answer[FoundT]:
    """A refusal is an answer, unless its reason is that the service broke."""
    try:
        details = FailureDetails.model_validate(reply.details)
    except ValidationError as error:
        raise ReplyError(f"a failure without a readable reason: {first_problem(error)}") from error
    message = reply.message or details.reason
    if details.reason in _BROKEN:
        raise PerceptionError(f"{service}: {message}", code=details.reason)
    return Answer(found=(), stamp=details.backend, reason=details.reason, message=message)


def _as_perception_error(service: str, error: McpCallError) -> PerceptionError:
    return PerceptionError(f"{service}: {error}", code=_CODES[error.failure])


def _picture(png: bytes) -> JsonObject:
    return {"format": "png", "base64": encode_base64(png)}
