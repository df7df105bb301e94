"""Perception against what the simulator knows of its own objects, on frames it really rendered."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from openeta_exp.adapters.perception.checking import detections, grasps
from openeta_exp.domain.observation import CameraFrame, ordered_cameras
from openeta_exp.embedded.perception.arguments import DetectGrasps, Segment, parse
from openeta_exp.embedded.perception.service import PerceptionService
from openeta_exp.embedded.simulator.arguments import CreateEnv, ResetEnv
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.replies import ObjectBounds, Observation
from openeta_exp.embedded.simulator.service import SimulatorOptions, SimulatorService
from openeta_exp.engine.geometry import GraspPose, Region, grasp_in_world, measure
from openeta_exp.ports.perception import Detection
from openeta_exp.wire.base64_text import encode_base64
from openeta_exp.wire.openeta_tools import parse_observation

pytestmark = pytest.mark.anyio

ELONGATED = 0.75


@dataclass(frozen=True, slots=True)
class Look:
    """One frame, its objects' true bounds, and the perception that knows it."""

    frame: CameraFrame
    bounds: dict[str, ObjectBounds]
    perception: PerceptionService

    async def find(self, name: str) -> Detection:
        given = {"image_base64": encode_base64(self.frame.rgb_png), "prompt": name}
        reply = await self.perception.segment(parse(Segment, {**given}))
        details = reply["details"]
        assert isinstance(details, dict)
        return detections(details, self.frame).found[0]

    async def best_grasp(self, target: Detection) -> GraspPose:
        assert self.frame.depth_png is not None
        pinhole = self.frame.intrinsics
        reply = await self.perception.detect_grasps(
            parse(
                DetectGrasps,
                {
                    "rgb": {"base64": encode_base64(self.frame.rgb_png)},
                    "depth": {"base64": encode_base64(self.frame.depth_png)},
                    "intrinsics": {
                        "fx": pinhole.fx,
                        "fy": pinhole.fy,
                        "cx": pinhole.cx,
                        "cy": pinhole.cy,
                    },
                    "target_mask": {"base64": encode_base64(target.mask_png)},
                },
            )
        )
        details = reply["details"]
        assert isinstance(details, dict)
        best = grasps(details, stretch=1.0).found[0]
        return grasp_in_world(best, self.frame.world_from_camera)

    def measured(self, target: Detection) -> Region:
        assert self.frame.depth_png is not None
        return measure(
            target.mask_png,
            self.frame.depth_png,
            self.frame.intrinsics,
            world_from_camera=self.frame.world_from_camera,
        )


@asynccontextmanager
async def looking_at(env_id: str, *, seed: int) -> AsyncIterator[Look]:
    options = SimulatorOptions(max_envs=1, quality=Quality.FAST)
    async with SimulatorService.running(options) as simulator:
        created = await simulator.create_env(CreateEnv(env_id=env_id, include_objects=True))
        text = await simulator.reset_env(ResetEnv(handle=created.handle, seed=seed))
        yield Look(
            frame=ordered_cameras(parse_observation(json.loads(text)))[0],
            bounds={
                each.name: each.bounds
                for each in Observation.model_validate_json(text).objects
                if each.bounds is not None
            },
            perception=PerceptionService(simulator),
        )


def lateral_error_m(region: Region, truth: ObjectBounds) -> float:
    return float(
        np.hypot(
            region.top_centre_m[0] - truth.center[0],
            region.top_centre_m[1] - truth.center[1],
        )
    )


def top_error_m(region: Region, truth: ObjectBounds) -> float:
    return abs(region.max_m[2] - truth.center[2] - truth.size[2] / 2)


def yaw_error_deg(grasp: GraspPose, truth: ObjectBounds) -> float:
    """Between the closing axis and the shorter side; the bounds' yaw is the longer side's."""
    return abs((grasp.closing_yaw_deg - truth.yaw_deg) % 180 - 90)


async def test_things_on_the_tabletop_stand_where_they_are_seen() -> None:
    async with looking_at("openeta/tabletop_can_on_shelf-v0", seed=1) as look:
        for name in ("can_1", "box_1", "bottle_1", "slab_1", "bowl_1", "basket_1"):
            target, truth = await look.find(name), look.bounds[name]
            region = look.measured(target)
            assert lateral_error_m(region, truth) < 0.006, name
            assert top_error_m(region, truth) < 0.003, name
            if name in ("box_1", "slab_1"):
                assert yaw_error_deg(await look.best_grasp(target), truth) < 8, name


async def test_a_bowl_too_wide_for_the_hand_is_gripped_by_its_rim() -> None:
    async with looking_at("openeta/tabletop_bowl_on_shelf-v0", seed=1) as look:
        target, truth = await look.find("bowl_1"), look.bounds["bowl_1"]
        grasp = await look.best_grasp(target)

    outwards = np.array(grasp.position_m[:2]) - np.array(truth.center[:2])
    radius_m = float(np.hypot(*outwards))
    closing = np.array([grasp.rotation[0][1], grasp.rotation[1][1]])
    assert truth.size[0] > 0.1
    assert truth.size[0] / 2 - 0.012 < radius_m < truth.size[0] / 2 + 0.003
    assert abs(outwards @ closing) / radius_m > 0.97


@pytest.mark.libero
async def test_groceries_of_libero_are_measured_to_millimetres_and_gripped_on_the_short_side() -> (
    None
):
    # Beside the target stands a can that the hand would come down on (initial state 7).
    async with looking_at("openeta/libero_libero_object_task1-v0", seed=7) as look:
        assert {"cream_cheese_1", "basket_1"} <= look.bounds.keys()
        for name, truth in look.bounds.items():
            target = await look.find(name)
            region = look.measured(target)
            assert lateral_error_m(region, truth) < 0.008, name
            # Cartons collide up to where their gable begins, but are drawn with it.
            assert top_error_m(region, truth) < (
                0.012 if name.startswith(("milk", "orange_juice")) else 0.006
            ), name
            if name != "basket_1" and truth.size[1] < ELONGATED * truth.size[0]:
                grasp = await look.best_grasp(target)
                assert grasp.downward == pytest.approx(1.0), name
                if truth.size[2] < 0.04:
                    assert yaw_error_deg(grasp, truth) < 10, name
        target, truth = await look.find("cream_cheese_1"), look.bounds["cream_cheese_1"]
        grasp = await look.best_grasp(target)
        off = np.array(grasp.position_m[:2]) - np.array(truth.center[:2])
        closing = np.array([grasp.rotation[0][1], grasp.rotation[1][1]])
        assert abs(off @ closing) < 0.003
        assert float(np.hypot(*off)) > 0.01
