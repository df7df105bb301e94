"""A scripted pick and place on privileged poses: the ceiling, and the bare loop, of the bench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from mcp import Client
from mcp_types import TextContent

from openeta_exp.embedded.simulator import observing
from openeta_exp.embedded.simulator.backend import Array, Backend
from openeta_exp.embedded.simulator.bounds import BodyShapes
from openeta_exp.embedded.simulator.environment import SETTLE_STEPS
from openeta_exp.embedded.simulator.motion import Limits, Target, drive
from openeta_exp.embedded.simulator.replies import (
    MotionReply,
    ObjectBounds,
    ObjectObservation,
    Observation,
    StepReply,
    StopReason,
)
from openeta_exp.embedded.simulator.rotations import quat_from_euler_deg

_PAD_OPEN_M = 0.05
"""Outer face of an open finger, from the middle."""
_PAD_HALF_WIDTH_M = 0.012
_PALM_ABOVE_GRIP_M = 0.031
_WIDEST_M = 0.076


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Everything that decides whether a pick succeeds. Metres and control steps."""

    top_grasp: bool = True
    """Grip below the top of the object; else at its middle."""
    depth_m: float = 0.028
    """How far below the top."""
    lowest_m: float = 0.012
    """Never grip lower than this above the surface the object stands on."""
    approach_m: float = 0.12
    close_steps: int = 12
    lift_z_m: float = 0.30
    lower: bool = True
    """Lower into the container before letting go."""
    align: bool = True
    """Close along the short side; else at yaw 0."""
    avoid: bool = True
    """Choose among grasps by the room the fingers have between neighbours."""
    rim: bool = True
    """Grip what is wider than the gripper by its wall."""


NAIVE = Strategy(
    top_grasp=False,
    approach_m=0.10,
    close_steps=4,
    lift_z_m=0.20,
    lower=False,
    align=False,
    avoid=False,
    rim=False,
)


@dataclass(frozen=True, slots=True)
class Grasp:
    """Where to put the grip point, and the hand's yaw in degrees."""

    xyz: tuple[float, float, float]
    yaw_deg: float


class Arm(Protocol):
    """What the script needs of a robot, served or bare. Every method tells if the task is won."""

    async def objects(self) -> Sequence[ObjectObservation]: ...

    async def move(self, xyz: tuple[float, float, float], *, yaw_deg: float) -> bool: ...

    async def grip(self, *, open_fingers: bool, steps: int) -> bool: ...


async def pick_and_place(
    arm: Arm, *, target: str, container: str, strategy: Strategy, surface_z_m: float = 0.0
) -> bool:
    """Move one object into or onto another; True if the environment's checker was satisfied."""
    objects = {seen.name: seen for seen in await arm.objects()}
    thing, place = _bounds(objects[target]), _bounds(objects[container])
    others = [_bounds(seen) for name, seen in objects.items() if name not in (target,)]
    grasp = plan_grasp(thing, others, strategy, surface_z_m=surface_z_m)
    x, y, z = grasp.xyz
    hold = z - (thing.center[2] - thing.size[2] / 2)
    high = max(strategy.lift_z_m, z + strategy.approach_m)
    if await arm.grip(open_fingers=True, steps=1):
        return True
    for waypoint in ((x, y, z + strategy.approach_m), (x, y, z)):
        if await arm.move(waypoint, yaw_deg=grasp.yaw_deg):
            return True
    if await arm.grip(open_fingers=False, steps=strategy.close_steps):
        return True
    # Off-centre grasps keep their offset, so the object's middle ends over the container's.
    px = place.center[0] + x - thing.center[0]
    py = place.center[1] + y - thing.center[1]
    waypoints = [(x, y, high), (px, py, high)]
    if strategy.lower:
        waypoints.append((px, py, _release_z(place, hold, hollow=container.startswith("basket"))))
    for waypoint in waypoints:
        if await arm.move(waypoint, yaw_deg=grasp.yaw_deg):
            return True
    if await arm.grip(open_fingers=True, steps=12):
        return True
    return await arm.move((px, py, high), yaw_deg=grasp.yaw_deg)


def plan_grasp(
    thing: ObjectBounds,
    others: Sequence[ObjectBounds],
    strategy: Strategy,
    *,
    surface_z_m: float,
) -> Grasp:
    """The grasp with most room for the open fingers, preferring the middle and the short side."""
    top = thing.center[2] + thing.size[2] / 2
    z = top - strategy.depth_m if strategy.top_grasp else thing.center[2]
    z = max(z, surface_z_m + strategy.lowest_m)
    best, best_score = Grasp((thing.center[0], thing.center[1], z), 0.0), -np.inf
    if not strategy.align:
        return best
    length, width, _ = thing.size
    turns = [(0.0, width, length)]
    if length <= _WIDEST_M:
        turns.append((90.0, length, width))
    for turn_deg, across, along in turns:
        yaw_deg = _half_turn(thing.yaw_deg + turn_deg)
        closing = _axis(yaw_deg + 90.0)
        sliding = _axis(yaw_deg)
        sides = [0.0]
        if across > _WIDEST_M and strategy.rim:
            sides = [across / 2 - 0.002, 0.002 - across / 2]
        reach = max(0.0, along / 2 - 0.014) if strategy.avoid and across <= _WIDEST_M else 0.0
        for side in sides:
            for slide in np.linspace(-reach, reach, 7) if reach else (0.0,):
                middle = np.array(thing.center[:2]) + side * closing + float(slide) * sliding
                room = _room(middle, closing, sliding, z, others) if strategy.avoid else 0.0
                score = min(room, 0.012) - 0.05 * abs(float(slide)) - 0.02 * across
                if score > best_score:
                    best_score = score
                    best = Grasp((float(middle[0]), float(middle[1]), z), yaw_deg)
    return best


def _room(
    middle: Array, closing: Array, sliding: Array, z: float, others: Sequence[ObjectBounds]
) -> float:
    """Metres between the open fingers, and the palm above them, and the nearest neighbour."""
    fingers = [
        middle + sign * (_PAD_OPEN_M - 0.01 * inner) * closing + edge * _PAD_HALF_WIDTH_M * sliding
        for sign in (-1, 1)
        for inner in (0, 1)
        for edge in (-1, 0, 1)
    ]
    palm = [
        middle + along * closing + edge * 0.03 * sliding
        for along in np.linspace(-0.1, 0.1, 9)
        for edge in (-1, 0, 1)
    ]
    room = np.inf
    for other in others:
        top = other.center[2] + other.size[2] / 2
        points = fingers if top > z - 0.012 else []
        if top > z + _PALM_ABOVE_GRIP_M:
            points = [*points, *palm]
        for point in points:
            room = min(room, _distance(point, other))
    return float(room)


def _distance(point: Array, box: ObjectBounds) -> float:
    """From a point to a box seen from above; negative inside."""
    offset = point - np.array(box.center[:2])
    u, v = float(offset @ _axis(box.yaw_deg)), float(offset @ _axis(box.yaw_deg + 90.0))
    du, dv = abs(u) - box.size[0] / 2, abs(v) - box.size[1] / 2
    outside = float(np.hypot(max(du, 0.0), max(dv, 0.0)))
    return outside if outside > 0 else max(du, dv)


def _release_z(place: ObjectBounds, hold: float, *, hollow: bool) -> float:
    """Low, but with the palm above the rim."""
    rim = place.center[2] + place.size[2] / 2
    if not hollow:
        return rim + hold + 0.004
    floor = place.center[2] - place.size[2] / 2
    return max(floor + hold + 0.02, rim - _PALM_ABOVE_GRIP_M + 0.012)


def _axis(yaw_deg: float) -> Array:
    return np.array([np.cos(np.radians(yaw_deg)), np.sin(np.radians(yaw_deg))])


def _half_turn(yaw_deg: float) -> float:
    """The equivalent yaw of a parallel gripper in (-90, 90]."""
    return 90.0 - (90.0 - yaw_deg) % 180.0


def _bounds(seen: ObjectObservation) -> ObjectBounds:
    if seen.bounds is None:
        raise ValueError(f"{seen.name} cannot be touched")
    return seen.bounds


class BareArm:
    """The script on a backend in this very thread: no server, no process, no image."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._shapes = BodyShapes(backend.model)
        self._latch = -1.0
        self.steps = 0

    def reset(self, seed: int) -> None:
        self._backend.reset(seed)
        self._latch = -1.0
        for _ in range(SETTLE_STEPS):
            self._advance(np.zeros(6))

    async def objects(self) -> Sequence[ObjectObservation]:
        return observing.objects(self._backend, self._shapes)

    async def move(self, xyz: tuple[float, float, float], *, yaw_deg: float) -> bool:
        outcome = drive(
            Target(np.array(xyz), quat_from_euler_deg(180.0, 0.0, yaw_deg)),
            Limits(steps=100, tolerance_m=0.002, tolerance_rad=0.05),
            scale=self._backend.scale,
            pose=self._backend.hand_pose,
            advance=self._advance,
        )
        return outcome.stop_reason == "terminated"

    async def grip(self, *, open_fingers: bool, steps: int) -> bool:
        self._latch = -1.0 if open_fingers else 1.0
        return any(self._advance(np.zeros(6)) is not None for _ in range(steps))

    def _advance(self, motion: Array) -> StopReason | None:
        self._backend.step(np.append(motion, self._latch))
        self.steps += 1
        return "terminated" if self._backend.succeeded() else None


class ServedArm:
    """The script through the tools of a server, as any client would run it."""

    def __init__(self, client: Client, handle: str) -> None:
        self._client = client
        self._handle = handle
        self.steps = 0
        self.reward = 0.0

    async def objects(self) -> Sequence[ObjectObservation]:
        """The environment must have been created with `include_objects`."""
        text = await self._call("observe_env", render=False)
        return Observation.from_json(text).objects

    async def move(self, xyz: tuple[float, float, float], *, yaw_deg: float) -> bool:
        x, y, z = xyz
        text = await self._call("move_to", x=x, y=y, z=z, roll=180.0, pitch=0.0, yaw=yaw_deg)
        reply = MotionReply.from_json(text)
        return self._count(reply.steps_executed, reply.reward)

    async def grip(self, *, open_fingers: bool, steps: int) -> bool:
        tool = "gripper_open" if open_fingers else "gripper_close"
        reply = StepReply.from_json(await self._call(tool, num_steps=steps))
        return self._count(reply.info.steps_executed, reply.reward)

    def _count(self, steps: int, reward: float) -> bool:
        self.steps += steps
        self.reward += reward
        return reward > 0

    async def _call(self, tool: str, **arguments: object) -> str:
        result = await self._client.call_tool(tool, {"handle": self._handle, **arguments})
        (block,) = result.content
        if result.is_error or not isinstance(block, TextContent):
            raise RuntimeError(f"{tool} failed: {result.content}")
        return block.text


LADDER = {
    "naive": NAIVE,
    "naive + lift 0.30": replace(NAIVE, lift_z_m=0.30),
    "naive + top + lift": replace(NAIVE, lift_z_m=0.30, top_grasp=True),
    "naive + top + lift + close 12": replace(NAIVE, lift_z_m=0.30, top_grasp=True, close_steps=12),
    "best without avoiding": replace(Strategy(), avoid=False),
    "best, close 4": replace(Strategy(), close_steps=4),
    "best": Strategy(),
}
"""Strategies from worst to best; what each adds is what the simulator makes matter."""
