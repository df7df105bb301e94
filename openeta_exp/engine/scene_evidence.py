"""What the host knows of the scene and where it has it from: what a reviewer judges a call by."""

from __future__ import annotations

from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import ordered_cameras
from openeta_exp.engine.candidate_queue import CandidateQueue, CompiledGrasp
from openeta_exp.engine.host import EpisodeHost, KnownDetection
from openeta_exp.engine.host_tools import HELD_OPENNESS


def scene_evidence(host: EpisodeHost) -> JsonObject:
    """Provenance of the selected detection and of the active grasp candidate, as JSON.

    `scene_epoch` counts world-mutating calls: what carries an older one was seen before them.
    An empty list says nothing about the scene, only that nobody has looked.
    """
    openness = host.observation.robot.gripper_openness
    return {
        "scene_epoch": host.scene_epoch,
        "cameras": [
            {"frame_id": frame.frame_id, "rgb_sha256": frame.rgb_sha256}
            for frame in ordered_cameras(host.observation)
        ],
        "selection": _selection(host),
        "active_grasp_candidate": None if host.queue is None else _candidate(host.queue),
        "last_compiled": None if host.last_compiled is None else _compiled(host.last_compiled),
        "measured": [
            {
                "detection_id": each.detection_id,
                "label": each.label,
                "min_xyz_m": list[JsonValue](each.min_xyz_m),
                "max_xyz_m": list[JsonValue](each.max_xyz_m),
                "scene_epoch": each.scene_epoch,
            }
            for each in host.measured.values()
        ],
        "gripper": {
            "last_command": host.gripper_command,
            "openness": openness,
            "holds_something": host.gripper_command == 0 and openness > HELD_OPENNESS,
        },
    }


def _selection(host: EpisodeHost) -> JsonObject | None:
    if host.selected is None:
        return None
    known: KnownDetection = host.detections[host.selected]
    return {
        "detection_id": known.detection_id,
        "label": known.detection.label,
        "prompt": known.prompt,
        "score": known.detection.score,
        "bbox_xyxy": list[JsonValue](known.detection.bbox_xyxy),
        "frame_id": known.frame.frame_id,
        "frame_rgb_sha256": known.frame.rgb_sha256,
        "scene_epoch": known.scene_epoch,
    }


def _candidate(queue: CandidateQueue) -> JsonObject:
    compiled = queue.compiled
    return {
        **queue.to_json(),
        "score": queue.active.score,
        "width_m": queue.active.width_m,
        "compiled": None if compiled is None else _compiled(compiled),
    }


def _compiled(grasp: CompiledGrasp) -> JsonObject:
    return {
        "candidate_id": grasp.candidate_id,
        "frame": "world",
        "hover_xyz_m": list[JsonValue](grasp.hover_xyz_m),
        "contact_xyz_m": list[JsonValue](grasp.contact_xyz_m),
        "roll_pitch_yaw_deg": list[JsonValue](grasp.roll_pitch_yaw_deg),
    }
