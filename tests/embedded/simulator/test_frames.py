"""Frames and what the simulator says they show."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import AsyncIterator

import httpx2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from PIL import Image

from openeta_exp.embedded.simulator.arguments import (
    CloseEnv,
    CreateEnv,
    ListActiveEnvs,
    MoveTo,
    ObserveEnv,
    ResetEnv,
)
from openeta_exp.embedded.simulator.frames import FrameInstance, FrameSource, FrameTruth
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.replies import CreateReply, MotionReply, Observation
from openeta_exp.embedded.simulator.service import SimulatorOptions, SimulatorService
from tests.embedded.simulator.servers import http_server
from tests.embedded.simulator.test_transports import CAN, call

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Of the module, so that its tests can share one service."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[SimulatorService]:
    options = SimulatorOptions(max_envs=2, quality=Quality.FAST)
    async with SimulatorService.running(options) as running:
        yield running


@pytest.fixture
async def service(shared: SimulatorService) -> AsyncIterator[SimulatorService]:
    """The shared service, with nothing left open by the test."""
    yield shared
    for env in (await shared.list_active_envs(ListActiveEnvs())).envs:
        await shared.close_env(CloseEnv(handle=env.handle))


async def look(service: SimulatorService, **options: object) -> tuple[str, Observation]:
    """A fresh environment and its first observation."""
    created = await service.create_env(
        CreateEnv.model_validate(
            {
                "env_id": CAN,
                "seed": 4,
                "image_width": 160,
                "image_height": 120,
                "cameras": ["agentview", "wrist"],
                "include_objects": True,
                **options,
            }
        )
    )
    first = Observation.from_json(await service.reset_env(ResetEnv(handle=created.handle)))
    return created.handle, first


async def test_a_frame_is_named_by_its_png_and_carries_calibrated_depth(
    service: SimulatorService,
) -> None:
    _, seen = await look(service)

    assert [camera.frame_id for camera in seen.cameras] == ["agentview", "wrist"]
    assert [camera.role for camera in seen.cameras] == ["scene_primary", "wrist_primary"]
    for camera in seen.cameras:
        png = base64.b64decode(camera.rgb_base64)
        assert hashlib.sha256(png).hexdigest() == seen.metadata.frames[camera.frame_id]
        picture = np.asarray(Image.open(io.BytesIO(png)))
        assert picture.shape == (120, 160, 3)
        assert picture.std() > 10
        assert camera.depth_base64 is not None
        depth = np.asarray(Image.open(io.BytesIO(base64.b64decode(camera.depth_base64))))
        assert depth.shape == (120, 160)
        assert camera.depth_min == pytest.approx(depth.min() / 1000)
        assert camera.depth_max == pytest.approx(depth.max() / 1000)


async def test_the_truth_of_a_frame_agrees_with_the_poses_of_the_objects(
    service: SimulatorService,
) -> None:
    _, seen = await look(service)
    truth = await service.frame_truth(seen.metadata.frames["agentview"])
    assert truth is not None
    (can,) = [thing for thing in seen.objects if thing.name == "can_1"]
    (instance,) = [i for i in truth.instances if i.name == "can_1"]
    assert (instance.category, instance.label, instance.kind) == ("can", "can", "object")

    rows, columns = np.nonzero(truth.segmentation == instance.instance_id)
    depth = truth.depth_m[rows, columns]
    rays = np.stack([columns + 0.5, rows + 0.5, np.ones_like(rows)]) * depth
    in_camera = np.linalg.inv(truth.intrinsics) @ rays
    points = truth.world_from_camera[:3, :3] @ in_camera + truth.world_from_camera[:3, 3:]

    offsets = points.T - np.array(can.position)
    assert len(rows) > 50
    # The visible front of a can 66 mm wide and 100 mm high; a pixel is about 7 mm here.
    assert np.all(np.abs(np.median(offsets, axis=0)) < 0.05)
    assert np.quantile(np.linalg.norm(offsets[:, :2], axis=1), 0.9) < 0.04
    assert np.quantile(np.abs(offsets[:, 2]), 0.9) < 0.055


async def test_extrinsics_on_the_wire_are_those_of_the_truth(service: SimulatorService) -> None:
    _, seen = await look(service)
    for camera in seen.cameras:
        truth = await service.frame_truth(seen.metadata.frames[camera.frame_id])
        assert truth is not None
        world_from_opengl = np.reshape(camera.extrinsics.mat, (3, 3))
        assert np.allclose(
            world_from_opengl @ np.diag([1, -1, -1]), truth.world_from_camera[:3, :3]
        )
        assert np.allclose(camera.extrinsics.pos, truth.world_from_camera[:3, 3])
        assert camera.intrinsics.fx == pytest.approx(truth.intrinsics[0, 0])


async def test_asking_for_the_truth_of_an_old_frame_does_not_disturb_the_episode(
    service: SimulatorService,
) -> None:
    handle, first = await look(service)
    text = await service.move_to(MoveTo(handle=handle, x=0.0, y=0.1, z=0.15))
    there = MotionReply.from_json(text).observation

    old = await service.frame_truth(first.metadata.frames["agentview"])
    new = await service.frame_truth(there.metadata.frames["agentview"])
    again = Observation.from_json(await service.observe_env(ObserveEnv(handle=handle)))

    assert old is not None
    assert new is not None
    assert not np.array_equal(old.segmentation, new.segmentation)
    assert again == there


async def test_frames_of_an_earlier_episode_or_of_nobody_are_unknown(
    service: SimulatorService,
) -> None:
    handle, first = await look(service)
    await service.reset_env(ResetEnv(handle=handle, seed=5))

    assert await service.frame_truth(first.metadata.frames["agentview"]) is None
    assert await service.frame_truth("0" * 64) is None


async def test_a_closed_environments_last_frames_can_still_be_asked_about(
    service: SimulatorService,
) -> None:
    handle, first = await look(service)
    await service.close_env(CloseEnv(handle=handle))

    assert await service.frame_truth(first.metadata.frames["wrist"]) is not None


async def test_equal_seeds_render_equal_frames_in_new_and_in_used_processes(
    service: SimulatorService,
) -> None:
    handle, first = await look(service)
    _, beside = await look(service)
    await service.close_env(CloseEnv(handle=handle))
    _, reused = await look(service)

    assert first == beside == reused


async def test_any_reply_can_leave_the_images_out(service: SimulatorService) -> None:
    handle, first = await look(service)

    lean = Observation.from_json(await service.observe_env(ObserveEnv(handle=handle, render=False)))
    moved = MotionReply.from_json(
        await service.move_to(MoveTo(handle=handle, x=0.0, y=0.1, z=0.2, render=False))
    )

    assert (lean.cameras, lean.metadata.frames) == ((), {})
    assert lean.metadata.state_digest == first.metadata.state_digest
    assert (moved.observation.cameras, moved.reached_target) == ((), True)


async def test_the_service_is_a_frame_source(service: SimulatorService) -> None:
    source: FrameSource = service

    assert await source.frame_truth("not even a digest") is None


async def test_frames_are_served_over_http_next_to_the_tools() -> None:
    with http_server() as (_, ready):
        async with Client(ready.url) as client:
            created = CreateReply.from_json(
                await call(client, "create_env", env_id=CAN, image_width=64, image_height=64)
            )
            text = await call(client, "reset_env", handle=created.handle)
            digest = Observation.from_json(text).metadata.frames["agentview"]
            async with httpx2.AsyncClient() as http:
                known = await http.get(f"{ready.frames_url}/{digest}")
                unknown = await http.get(f"{ready.frames_url}/{'0' * 64}")

    assert FrameTruth.from_npz(known.content).segmentation.shape == (64, 64)
    assert unknown.status_code == 404


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(b"PK\x03\x04".__add__)))
def test_bytes_that_are_no_archive_are_refused_by_name(content: bytes) -> None:
    with pytest.raises(ValueError):
        FrameTruth.from_npz(content)


def test_an_archive_comes_back_as_it_went() -> None:
    truth = FrameTruth(
        segmentation=np.array([[0, 1]], dtype=np.int32),
        depth_m=np.array([[0.5, 1.5]], dtype=np.float32),
        intrinsics=np.eye(3),
        world_from_camera=np.eye(4),
        instances=(
            FrameInstance(instance_id=1, name="cup_1", category="cup", label="cup", kind="object"),
        ),
    )

    back = FrameTruth.from_npz(truth.to_npz())

    assert np.array_equal(back.segmentation, truth.segmentation)
    assert np.array_equal(back.depth_m, truth.depth_m)
    assert back.instances == truth.instances
