"""Grasps as the AnyGrasp contract wants them: planned upright in the world, told in the camera."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from openeta_exp.domain.geometry import (
    Array,
    GeometryError,
    Mask,
    points_in_camera,
    seen_surface,
    to_world,
)
from openeta_exp.domain.observation import Intrinsics
from openeta_exp.embedded.perception.arguments import DetectGrasps, Refusal, image_bytes
from openeta_exp.embedded.perception.grasping import Grasp, plan_grasps
from openeta_exp.embedded.perception.hand import REACH_M
from openeta_exp.embedded.perception.masks import objects_in, robot_in
from openeta_exp.embedded.simulator.frames import FrameTruth
from openeta_exp.wire.images import ImageError, ImageKindError, decode_depth_m, decode_mask
from openeta_exp.wire.perception_tools import MAX_GRASPS, WireGrasp

_FINGER_WIDTH_M = 0.02

ImageT = TypeVar("ImageT")


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """What grasps are planned on."""

    depth_m: Array
    intrinsics: Intrinsics
    world_from_camera: Array
    robot: Mask


def check_mode(arguments: DetectGrasps) -> None:
    """Raises: Refusal: If mode and mask do not fit."""
    targeted = arguments.mode == "targeted"
    if targeted and arguments.target_mask is None:
        raise Refusal("missing_target_mask", "mode targeted needs a target_mask")
    if not targeted and arguments.target_mask is not None:
        raise Refusal("target_mask_not_allowed_in_scene_mode", "mode scene takes no target_mask")


def grasps_in(frame: FrameTruth, arguments: DetectGrasps) -> tuple[WireGrasp, ...]:
    """Ranked grasps on the masked target, or on every movable thing in mode scene.

    The frame contributes the camera's pose, because depth alone does not tell which way is down,
    and which pixels are the robot's own; it contributes no object pose.

    Raises:
        Refusal: Nothing to grasp, or the images do not fit together.
    """
    shrink = arguments.intrinsics.shrink
    view = _view(frame, arguments)
    avoid_collisions = arguments.collision_detection
    if arguments.target_mask is None:
        grasps = [
            grasp
            for target in objects_in(frame)
            if (view.depth_m[target] > 0).any()
            for grasp in _grasps_on(target, view, avoid_collisions=avoid_collisions)
        ]
    else:
        target = _decoded(
            decode_mask,
            arguments.target_mask.base64,
            code="target_mask_decode_failed",
            kind_code="target_mask_decode_failed",
        )
        grasps = _grasps_on(target, view, avoid_collisions=avoid_collisions)
    grasps.sort(key=lambda grasp: -grasp.score)
    found = [_in_camera(grasp, frame.world_from_camera, shrink=shrink) for grasp in grasps]
    return _ranked([grasp for grasp in found if _within_steering(grasp, arguments)], found)


def _ranked(steered: list[WireGrasp], found: list[WireGrasp]) -> tuple[WireGrasp, ...]:
    if not found:
        raise Refusal("no_grasp_candidates", "nothing fits between the fingers")
    if not steered:
        raise Refusal(
            "no_grasp_candidates",
            "all grasps come from straight above; none lies within approach_steering",
        )
    return tuple(
        grasp.model_copy(update={"id": f"grasp_{rank:03d}", "rank": rank, "backend_index": rank})
        for rank, grasp in enumerate(steered[:MAX_GRASPS])
    )


def _view(frame: FrameTruth, arguments: DetectGrasps) -> _View:
    depth_m = _decoded(
        decode_depth_m,
        arguments.depth.base64,
        code="depth_decode_failed",
        kind_code="unsupported_depth_format",
    )
    if depth_m.shape != frame.segmentation.shape:
        raise Refusal(
            "image_shape_mismatch",
            f"depth is {depth_m.shape}, rgb {frame.segmentation.shape} (rows, columns)",
        )
    return _View(
        depth_m=depth_m.astype(np.float64),
        intrinsics=arguments.intrinsics.pinhole,
        world_from_camera=frame.world_from_camera,
        robot=robot_in(frame),
    )


def _grasps_on(target: Mask, view: _View, *, avoid_collisions: bool) -> list[Grasp]:
    try:
        surface = seen_surface(
            target, view.depth_m, view.intrinsics, world_from_camera=view.world_from_camera
        )
    except GeometryError as error:
        raise Refusal(error.code, str(error)) from error
    neighbours = _neighbours(target, view) if avoid_collisions else np.empty((0, 3))
    return plan_grasps(
        surface,
        neighbours,
        image_right=view.world_from_camera[:3, 0],
        avoid_collisions=avoid_collisions,
    )


def _neighbours(target: Mask, view: _View) -> Array:
    """`[N, 3]` seen points around the target that belong neither to it nor to the robot.

    The robot is left out because it will have moved by then. Pixels beside the mask count as the
    target's: half of what they show is its border.
    """
    rows, columns = (np.flatnonzero(target.any(axis=axis)) for axis in (1, 0))
    distance_m = float(np.median(view.depth_m[target & (view.depth_m > 0)]))
    reach = int(2 * REACH_M * view.intrinsics.fx / distance_m) + 1
    top, left = max(0, int(rows[0]) - reach), max(0, int(columns[0]) - reach)
    window = np.s_[top : rows[-1] + reach + 1, left : columns[-1] + reach + 1]
    around = np.pad(target[window], 1)
    near = around[:-2, 1:-1] | around[2:, 1:-1] | around[1:-1, :-2] | around[1:-1, 2:]
    depth_m = view.depth_m[window]
    v, u = np.nonzero(~(near | target[window] | view.robot[window]) & (depth_m > 0))
    points = points_in_camera(u + left, v + top, depth_m[v, u], intrinsics=view.intrinsics)
    return to_world(points, view.world_from_camera)


def _in_camera(grasp: Grasp, world_from_camera: Array, *, shrink: float) -> WireGrasp:
    camera_from_world = world_from_camera[:3, :3].T
    cos, sin = float(np.cos(grasp.closing_yaw_rad)), float(np.sin(grasp.closing_yaw_rad))
    # Columns: straight down, closing, and their cross product.
    rotation = camera_from_world @ np.array([[0, cos, sin], [0, sin, -cos], [-1, 0, 0]])
    centre = camera_from_world @ (np.array(grasp.centre_m) - world_from_camera[:3, 3])
    tip = centre + grasp.depth_m * rotation[:, 0]
    rows = [_triple(row) for row in rotation]
    return WireGrasp(
        id="",
        rank=0,
        backend_index=0,
        score=grasp.score,
        translation_xyz=_triple(centre / shrink),
        rotation_matrix=(rows[0], rows[1], rows[2]),
        depth=grasp.depth_m / shrink,
        width=grasp.width_m / shrink,
        height=_FINGER_WIDTH_M / shrink,
        gripper_tip_position_xyz=_triple(tip / shrink),
    )


def _within_steering(grasp: WireGrasp, arguments: DetectGrasps) -> bool:
    if arguments.approach_steering is None:
        return True
    wanted = np.array(arguments.approach_steering)
    approach = np.array([row[0] for row in grasp.rotation_matrix])
    cosine = float(approach @ wanted / np.linalg.norm(wanted))
    return bool(np.arccos(np.clip(cosine, -1.0, 1.0)) <= arguments.approach_thresh)


def _decoded(decoder: Callable[[bytes], ImageT], text: str, *, code: str, kind_code: str) -> ImageT:
    png = image_bytes(text, code=code)
    try:
        return decoder(png)
    except ImageKindError as error:
        raise Refusal(kind_code, str(error)) from error
    except ImageError as error:
        raise Refusal(code, str(error)) from error


def _triple(values: Array) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z
