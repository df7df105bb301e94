"""Looking and measuring: what a planner asks of the images, always of the current observation."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue, ValidationError

from openeta_exp.domain.grasp_strategy import GraspHeight, Orientation
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult, ToolSpec, refused
from openeta_exp.engine.candidate_queue import CandidateQueue, CompiledGrasp
from openeta_exp.engine.geometry import GeometryError, Region, grasp_in_world, measure
from openeta_exp.engine.grasp_compile import CompileError, GraspPlan, Pose, compile_grasp
from openeta_exp.engine.host import EpisodeHost, KnownDetection, MeasuredDetection
from openeta_exp.ports.perception import Answer, Detection, GraspCandidate, Perception, Point

SHOWN_CANDIDATES = 5
_TEXT: JsonObject = {"type": "string"}
_DETECTION: JsonObject = {"type": "string", "description": "An id from sam3."}


def _schema(required: list[str], **properties: JsonValue) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list[JsonValue](required)}


SAM3 = ToolSpec(
    name="sam3",
    description="Segment what fits the words (mode text) or the points (mode points) in the "
    "current image.",
    effect=ToolEffect.READ_ONLY,
    parameters=_schema(
        ["mode"],
        mode={"type": "string", "enum": ["text", "points"]},
        prompt=_TEXT,
        points={
            "type": "array",
            "minItems": 1,
            "maxItems": 64,
            "items": _schema(
                ["x", "y"],
                x={"type": "integer"},
                y={"type": "integer"},
                label={"type": "integer", "enum": [0, 1]},
            ),
        },
        image={"type": "string", "description": "Path or frame id; the primary RGB by default."},
        frame_id=_TEXT,
    ),
)
SELECT = ToolSpec(
    name="select_sam3_detection",
    description="Choose one of several detections.",
    effect=ToolEffect.PLANNING,
    parameters=_schema(["detection_id"], detection_id=_DETECTION),
)
MEASURE = ToolSpec(
    name="measure_detection",
    description="World position and size of a detection, from its mask and the depth image.",
    effect=ToolEffect.READ_ONLY,
    parameters=_schema(["detection_id"], detection_id=_DETECTION),
)
ANYGRASP = ToolSpec(
    name="anygrasp",
    description="Ranked grasps on a detection. The first becomes the active candidate.",
    effect=ToolEffect.READ_ONLY,
    parameters=_schema(
        ["detection_id"], detection_id=_DETECTION, collision_detection={"type": "boolean"}
    ),
)
ACTIVATE = ToolSpec(
    name="activate_final_grasp_candidate",
    description="Make another candidate of the last anygrasp answer the active one.",
    effect=ToolEffect.PLANNING,
    parameters=_schema(["candidate_id"], candidate_id=_TEXT),
)
COMPILE = ToolSpec(
    name="compile_grasp_seed",
    description="Hover and contact pose of the active candidate in the world frame, with the "
    "parameters of the grasp strategy.",
    effect=ToolEffect.READ_ONLY,
    parameters=_schema(
        [],
        candidate_id=_TEXT,
        orientation={"type": "string", "enum": [each.value for each in Orientation]},
        grasp_height={"type": "object"},
        approach_height_m={"type": "number"},
        min_downward_alignment={"type": "number"},
    ),
)
PERCEPTION_TOOLS = (SAM3, SELECT, MEASURE, ANYGRASP, ACTIVATE, COMPILE)
_EFFECTS = {tool.name: tool.effect for tool in PERCEPTION_TOOLS}


class PerceptionTools:
    """Runs the perception tools of one episode."""

    def __init__(self, perception: Perception, host: EpisodeHost) -> None:
        self._perception = perception
        self._host = host
        self._count = 0

    async def run(self, call: ToolCall) -> ToolResult:
        """Raises: PerceptionError: The service did not answer."""
        match call.name:
            case SAM3.name:
                return await self._segment(call)
            case SELECT.name:
                return self._select(call)
            case MEASURE.name:
                return self._measure(call)
            case ANYGRASP.name:
                return await self._grasps(call)
            case ACTIVATE.name:
                return self._activate(call)
            case _:
                return self._compile(call)

    async def _segment(self, call: ToolCall) -> ToolResult:
        asked = call.arguments.get("image") or call.arguments.get("frame_id")
        frame = self._host.frame_named(None if asked is None else str(asked))
        if frame is None:
            return _no(call, "image_not_found", f"no RGB image {asked!r} in this observation")
        if call.arguments["mode"] == "text":
            prompt = str(call.arguments.get("prompt") or "").strip()
            if not prompt:
                return _no(call, "missing_prompt", "mode text needs a `prompt`")
            answer = await self._perception.segment(frame, prompt=prompt)
        else:
            prompt = ""
            points = _points(call.arguments.get("points"))
            if not points:
                return _no(call, "missing_points", "mode points needs `points`")
            answer = await self._perception.segment_points(frame, points=points)
        if answer.reason is not None:
            return _no(call, answer.reason, answer.message)
        known = [
            KnownDetection(
                detection_id=self._next_id(),
                frame=frame,
                detection=each,
                prompt=prompt,
                scene_epoch=self._host.scene_epoch,
            )
            for each in answer.found
        ]
        self._host.detections.update({each.detection_id: each for each in known})
        # One detection needs no choice; several oblige the planner to select.
        selected = known[0].detection_id if len(known) == 1 else None
        self._host.pending_selection = (
            () if len(known) <= 1 else tuple(each.detection_id for each in known)
        )
        return _yes(
            call,
            {
                "prompt": prompt,
                "detections": [_detection_json(each) for each in known],
                "selected": selected,
                "stamp": answer.stamp,
            },
        )

    def _next_id(self) -> str:
        self._count += 1
        return f"detection_{self._count - 1:03d}"

    def _select(self, call: ToolCall) -> ToolResult:
        detection_id = str(call.arguments["detection_id"])
        if detection_id not in self._host.detections:
            return _no(call, "unknown_detection", f"there is no detection {detection_id!r}")
        self._host.pending_selection = ()
        return _yes(call, {"selected": detection_id})

    def _measure(self, call: ToolCall) -> ToolResult:
        known = self._host.detections.get(str(call.arguments["detection_id"]))
        if known is None:
            return _no(call, "unknown_detection", "name an id that sam3 returned")
        try:
            region = _region(known)
        except GeometryError as error:
            return _no(call, error.code, str(error))
        self._host.measured[known.detection_id] = MeasuredDetection(
            detection_id=known.detection_id,
            label=known.detection.label,
            min_xyz_m=region.min_m,
            max_xyz_m=region.max_m,
            scene_epoch=self._host.scene_epoch,
        )
        return _yes(
            call,
            {
                "detection_id": known.detection_id,
                "centre_xyz_m": _rounded(region.centre_m),
                "min_xyz_m": _rounded(region.min_m),
                "max_xyz_m": _rounded(region.max_m),
                "top_centre_xyz_m": _rounded(region.top_centre_m),
            },
        )

    async def _grasps(self, call: ToolCall) -> ToolResult:
        if self._host.pending_selection:
            return _no(
                call,
                "selection_pending",
                f"select one of {list(self._host.pending_selection)} first",
            )
        known = self._host.detections.get(str(call.arguments["detection_id"]))
        if known is None:
            return _no(call, "unknown_detection", "name an id that sam3 returned")
        answer: Answer[GraspCandidate] = await self._perception.detect_grasps(
            known.frame,
            mask_png=known.detection.mask_png,
            collision_detection=call.arguments.get("collision_detection") is not False,
        )
        if answer.reason is not None or not answer.found:
            return _no(call, answer.reason or "no_grasp_candidates", answer.message)
        self._host.queue = CandidateQueue(candidates=answer.found)
        self._host.selected = known.detection_id
        self._host.grasp_target = known.detection.label
        return _yes(
            call,
            {
                "candidates": [_candidate_json(each) for each in answer.found[:SHOWN_CANDIDATES]],
                "candidate_count": len(answer.found),
                "active_candidate": answer.found[0].candidate_id,
                "stamp": answer.stamp,
            },
        )

    def _activate(self, call: ToolCall) -> ToolResult:
        if self._host.queue is None:
            return _no(call, "no_candidates", "ask anygrasp for candidates first")
        try:
            self._host.queue = self._host.queue.activate(str(call.arguments["candidate_id"]))
        except KeyError:
            return _no(call, "unknown_candidate", "name an id that anygrasp returned")
        return _yes(call, {"active_candidate": self._host.queue.active.candidate_id})

    def _compile(self, call: ToolCall) -> ToolResult:
        queue = self._host.queue
        if queue is None or self._host.selected is None:
            return _no(call, "no_candidates", "ask anygrasp for candidates first")
        wanted = call.arguments.get("candidate_id")
        if wanted is not None and wanted != queue.active.candidate_id:
            return _no(
                call,
                "candidate_not_active",
                f"{queue.active.candidate_id} is active; activate another one first",
            )
        known = self._host.detections[self._host.selected]
        try:
            region = _region(known)
            plan = _plan(call, queue.active, region, known, self._host)
        except (GeometryError, CompileError) as error:
            return _no(call, error.code, str(error))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            return _no(call, "invalid_parameters", f"grasp_height.{where}: {first['msg']}")
        except ValueError as error:
            return _no(call, "invalid_parameters", str(error))
        self._host.last_compiled = CompiledGrasp(
            candidate_id=queue.active.candidate_id,
            hover_xyz_m=plan.hover.xyz_m,
            contact_xyz_m=plan.contact.xyz_m,
            roll_pitch_yaw_deg=plan.contact.roll_pitch_yaw_deg,
            extents_m=plan.extents_m,
        )
        self._host.queue = replace(queue, compiled=self._host.last_compiled)
        return _yes(
            call,
            {
                "candidate_id": queue.active.candidate_id,
                "hover_pose": _pose_json(plan.hover),
                "contact_pose": _pose_json(plan.contact),
                "width_m": round(queue.active.width_m, 4),
                "target_extents_m": _rounded(plan.extents_m),
                "grasp_offset_xy_m": _offset(plan, region),
                "target_bottom_z_m": round(region.min_m[2], 4),
                "target_top_z_m": round(region.max_m[2], 4),
            },
        )


def _plan(
    call: ToolCall,
    candidate: GraspCandidate,
    region: Region,
    known: KnownDetection,
    host: EpisodeHost,
) -> GraspPlan:
    given = call.arguments
    return compile_grasp(
        grasp_in_world(candidate, known.frame.world_from_camera),
        region,
        eef_quat_xyzw=host.observation.robot.eef_quat_xyzw,
        orientation=Orientation(
            str(given.get("orientation") or Orientation.TOP_DOWN_PRESERVE_YAW.value)
        ),
        grasp_height=GraspHeight.model_validate(given.get("grasp_height") or {}),
        approach_height_m=_number(given, "approach_height_m", 0.12),
        min_downward_alignment=_number(given, "min_downward_alignment", 0.0),
    )


def _offset(plan: GraspPlan, region: Region) -> list[JsonValue]:
    """From the target's middle to the contact, horizontally: what a carry has to make up for."""
    return [round(plan.contact.xyz_m[axis] - region.top_centre_m[axis], 4) for axis in (0, 1)]


def _region(known: KnownDetection) -> Region:
    if known.frame.depth_png is None:
        raise GeometryError("the camera gave no depth image", code="missing_depth")
    return measure(
        known.detection.mask_png,
        known.frame.depth_png,
        known.frame.intrinsics,
        world_from_camera=known.frame.world_from_camera,
    )


def _points(value: JsonValue) -> tuple[Point, ...]:
    """Prompt points; their shape was checked against the tool's schema before."""
    if not isinstance(value, list):
        return ()
    found: list[Point] = []
    for row in value:
        if isinstance(row, dict):
            x, y = row.get("x"), row.get("y")
            if isinstance(x, int) and isinstance(y, int):
                found.append(Point(x=x, y=y, label=0 if row.get("label") == 0 else 1))
    return tuple(found)


def _number(source: JsonObject, name: str, default: float) -> float:
    value = source.get(name)
    return float(value) if isinstance(value, int | float) else default


def _detection_json(known: KnownDetection) -> JsonObject:
    found: Detection = known.detection
    return {
        "id": known.detection_id,
        "label": found.label,
        "score": round(found.score, 4),
        "bbox_xyxy": list[JsonValue](found.bbox_xyxy),
        "area_px": found.area_px,
    }


def _candidate_json(candidate: GraspCandidate) -> JsonObject:
    return {
        "id": candidate.candidate_id,
        "rank": candidate.rank,
        "score": round(candidate.score, 4),
        "width_m": round(candidate.width_m, 4),
        "translation_xyz_m": _rounded(candidate.translation_m),
    }


def _pose_json(pose: Pose) -> JsonObject:
    names = ("x", "y", "z", "roll", "pitch", "yaw")
    values = (*pose.xyz_m, *pose.roll_pitch_yaw_deg)
    return {name: round(value, 4) for name, value in zip(names, values, strict=True)}


def _rounded(values: tuple[float, float, float]) -> list[JsonValue]:
    return [round(value, 4) for value in values]


def _yes(call: ToolCall, outputs: JsonObject) -> ToolResult:
    return ToolResult(call=call, effect=_EFFECTS[call.name], success=True, outputs=outputs)


def _no(call: ToolCall, code: str, message: str) -> ToolResult:
    return refused(call, _EFFECTS[call.name], code=code, message=message or code)
