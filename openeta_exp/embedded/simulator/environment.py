"""One environment: a backend with an episode on it, answering the tools of the contract."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

from openeta_exp.embedded.simulator import observing
from openeta_exp.embedded.simulator.arguments import (
    FollowEefTrajectory,
    MotionArguments,
    MoveTo,
    StepEnv,
    Waypoint,
)
from openeta_exp.embedded.simulator.backend import Array, Backend, EnvironmentFault, InitialState
from openeta_exp.embedded.simulator.bounds import BodyShapes
from openeta_exp.embedded.simulator.collisions import CollisionWatch
from openeta_exp.embedded.simulator.frame_memory import FrameMemory
from openeta_exp.embedded.simulator.frames import FrameTruth
from openeta_exp.embedded.simulator.motion import Limits, Target, drive
from openeta_exp.embedded.simulator.observing import View
from openeta_exp.embedded.simulator.rendering import OffscreenRenderer
from openeta_exp.embedded.simulator.replies import (
    Collision,
    Motion,
    MotionReply,
    MotionTarget,
    Observation,
    ObservationMetadata,
    StepNotes,
    StepReply,
    StopReason,
    TrajectoryReply,
)
from openeta_exp.embedded.simulator.rotations import (
    euler_deg_from_quat,
    quat_from_euler_deg,
    quat_from_matrix,
    quat_from_xyzw,
)

SETTLE_STEPS = 5
MAX_EPISODE_STEPS = 20_000
"""Control steps (1000 s of simulated time) after which an episode is truncated."""
_OPEN, _CLOSE = -1.0, 1.0
_DONE_NOTE = "the episode is over: nothing moved, reset_env starts the next one"


class Environment:
    """Episodes of one backend, one at a time.

    An action is rewarded with 1 once, on the checker's word only; observations repeat it.

    Frames are rendered when an observation is returned, never in between.
    """

    def __init__(self, backend: Backend, *, env_id: str, gl: str) -> None:
        self._backend = backend
        self._env_id = env_id
        self._gl = gl
        self._view: View | None = None
        self._renderer: OffscreenRenderer | None = None
        self._shapes = BodyShapes(backend.model)
        self._memory = FrameMemory(backend)
        robot_bodies = next(i.body_ids for i in backend.instances if i.category == "robot")
        self._watch = CollisionWatch(backend.model, watched=backend.hand_bodies, robot=robot_bodies)
        self._initial: InitialState | None = None
        self._latch = _OPEN
        self._steps = 0
        self._success_at_reset = False
        self._terminated = False
        self._truncated = False

    @property
    def backend(self) -> Backend:
        return self._backend

    def open(self, view: View) -> None:
        """Begin a new use of this environment; it wants a reset next.

        A GL context is made when a frame is due, and kept while images stay the same size:
        LIBERO's textures take more than a second to load into a new one.
        """
        pictures = self._view and (self._view.width, self._view.height, self._view.quality)
        if self._renderer and pictures != (view.width, view.height, view.quality):
            self._memory.forget()
            self._renderer.close()
            self._renderer = None
        self._view = view
        self._initial = None

    def reset(self, seed: int, *, render: bool = True) -> Observation:
        """Start the episode `seed` selects, settled for five control steps."""
        self._memory.forget()
        self._initial = self._backend.reset(seed)
        self._latch, self._steps = _OPEN, 0
        self._terminated = self._truncated = False
        for _ in range(SETTLE_STEPS):
            self._backend.step(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, self._latch]))
        self._success_at_reset = self._backend.succeeded()
        return self.observe(render=render)

    def observe(self, *, render: bool) -> Observation:
        """The present state; rendering does not advance time.

        Raises:
            EnvironmentFault: If there was no reset yet.
        """
        initial, view = self._started()
        frames = {}
        cameras = []
        for name in view.cameras if render else ():
            encoded = observing.encode(
                self._backend,
                name,
                self._draw(view).frame(self._backend.data, self._backend.cameras[name]),
                depth=view.depth,
            )
            self._memory.remember(encoded.digest, name)
            frames[name] = encoded.digest
            cameras.append(encoded.observation)
        return Observation(
            task=self._backend.task,
            cameras=tuple(cameras),
            robot=observing.robot(self._backend),
            objects=(
                observing.objects(self._backend, self._shapes) if view.include_objects else ()
            ),
            metadata=ObservationMetadata(
                backend=self._backend.name,
                backend_version=self._backend.version,
                mujoco_version=mujoco.__version__,
                gl=self._gl if view.cameras else "none",
                quality=view.quality.value,
                env_id=self._env_id,
                seed=initial.seed,
                init_state_index=initial.init_state_index,
                sim_step=self._steps,
                state_digest=observing.state_digest(self._backend.data),
                frames=frames,
                success_at_reset=self._success_at_reset,
                reward=1.0 if self._terminated else 0.0,
                terminated=self._terminated,
                truncated=self._truncated,
            ),
        )

    def step(self, arguments: StepEnv) -> StepReply:
        """Repeat one action; its gripper entry becomes the latched command."""
        initial, _ = self._started()
        action = arguments.action
        if action is None:
            rng = np.random.default_rng((initial.seed, self._steps))
            sampled = rng.uniform(-1.0, 1.0, size=7)
        else:
            sampled = np.clip(np.array(action, dtype=np.float64), -1.0, 1.0)

        def again() -> StopReason | None:
            self._latch = float(sampled[6])
            return self._advance(sampled[:6])

        return self._repeat(again, arguments.num_steps, render=arguments.render)

    def grip(self, *, open_fingers: bool, num_steps: int, render: bool = True) -> StepReply:
        """Hold still while the fingers travel; the command stays latched for later motions."""
        self._started()

        def again() -> StopReason | None:
            self._latch = _OPEN if open_fingers else _CLOSE
            return self._advance(np.zeros(6))

        return self._repeat(again, num_steps, render=render)

    def move_to(self, arguments: MoveTo) -> MotionReply:
        self._started()
        orientation = None
        if arguments.roll is not None and arguments.pitch is not None:
            assert arguments.yaw is not None
            orientation = quat_from_euler_deg(arguments.roll, arguments.pitch, arguments.yaw)
        target = Target(np.array([arguments.x, arguments.y, arguments.z]), orientation)
        motion = self._travel(target, arguments, steps=arguments.num_steps)
        return MotionReply(
            **{name: getattr(motion, name) for name in Motion.model_fields},
            observation=self.observe(render=arguments.render),
        )

    def follow(self, arguments: FollowEefTrajectory) -> TrajectoryReply:
        """Visit waypoints in order; the first that is missed ends the trajectory.

        Raises:
            EnvironmentFault: If a waypoint's orientation is none; before anything moves.
        """
        self._started()
        targets = [_waypoint_target(waypoint) for waypoint in arguments.trajectory]
        motions: list[Motion] = []
        for target in targets:
            motions.append(self._travel(target, arguments, steps=arguments.num_steps_per_waypoint))
            if not motions[-1].reached_target or motions[-1].terminated or motions[-1].truncated:
                break
        last = motions[-1]
        reached = sum(motion.reached_target for motion in motions)
        return TrajectoryReply(
            trajectory=tuple(_wire_target(target) for target in targets),
            waypoints_requested=len(targets),
            waypoints_completed=reached,
            start=motions[0].start,
            end=last.end,
            target=last.target,
            reached_target=reached == len(targets),
            steps_executed=sum(motion.steps_executed for motion in motions),
            reward=last.reward,
            terminated=last.terminated,
            truncated=last.truncated,
            collision=last.collision,
            waypoint_results=tuple(motions),
            note=last.note,
            observation=self.observe(render=arguments.render),
        )

    def frame_truth(self, digest: str) -> FrameTruth | None:
        """What a frame of the last episode shows; None if it is not remembered."""
        if self._renderer is None:
            return None
        return self._memory.truth(digest, self._renderer)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
        self._backend.close()

    def _started(self) -> tuple[InitialState, View]:
        if self._initial is None or self._view is None:
            raise EnvironmentFault("no observation yet: call reset_env first", code="not_reset")
        return self._initial, self._view

    def _draw(self, view: View) -> OffscreenRenderer:
        if self._renderer is None:
            self._renderer = OffscreenRenderer(
                self._backend.model,
                width=view.width,
                height=view.height,
                quality=view.quality,
                geom_groups=self._backend.geom_groups,
            )
        return self._renderer

    def _advance(self, motion: Array) -> StopReason | None:
        """One control step under the latched gripper command; a reason to stop, if there is."""
        self._backend.step(np.append(motion, self._latch))
        self._steps += 1
        if self._backend.succeeded():
            self._terminated = True
            return "terminated"
        if self._steps >= MAX_EPISODE_STEPS:
            self._truncated = True
            return "truncated"
        return None

    def _repeat(
        self, advance: Callable[[], StopReason | None], num_steps: int, *, render: bool
    ) -> StepReply:
        over = self._terminated or self._truncated
        executed, stop = 0, None
        while not over and executed < num_steps and stop is None:
            stop = advance()
            executed += 1
        return StepReply(
            observation=self.observe(render=render),
            reward=1.0 if stop == "terminated" else 0.0,
            terminated=self._terminated,
            truncated=self._truncated,
            info=StepNotes(
                steps_executed=executed,
                success=self._terminated,
                note=_DONE_NOTE if over else None,
            ),
        )

    def _travel(self, target: Target, arguments: MotionArguments, *, steps: int) -> Motion:
        over = self._terminated or self._truncated
        start = observing.hand(self._backend)
        collision = Collision(detected=False)
        if not arguments.enable_collision_check:
            collision = Collision(detected=False, available=False, reason="not asked for")

        def advance(motion: Array) -> StopReason | None:
            nonlocal collision
            stop = self._advance(motion)
            if arguments.enable_collision_check:
                collision = self._watch.check(self._backend.data)
            return stop or ("collision" if collision.detected else None)

        limits = Limits(
            steps=0 if over else steps,
            tolerance_m=arguments.tolerance,
            tolerance_rad=arguments.ori_tolerance,
        )
        outcome = drive(
            target,
            limits,
            scale=self._backend.scale,
            pose=self._backend.hand_pose,
            advance=advance,
        )
        stop_reason = outcome.stop_reason
        if over:
            stop_reason = "terminated" if self._terminated else "truncated"
        return Motion(
            target=_wire_target(target),
            start=start,
            end=observing.hand(self._backend),
            steps_executed=outcome.steps_executed,
            reached_target=outcome.error.within(limits) and not collision.detected,
            position_error_m=float(np.abs(outcome.error.metres).max()),
            orientation_error_rad=(
                None if target.quat_wxyz is None else float(np.linalg.norm(outcome.error.radians))
            ),
            stop_reason=stop_reason,
            reward=1.0 if outcome.stop_reason == "terminated" else 0.0,
            terminated=self._terminated,
            truncated=self._truncated,
            collision=collision,
            note=_DONE_NOTE if over else None,
        )


def _waypoint_target(waypoint: Waypoint) -> Target:
    orientation: Array | None = None
    try:
        if waypoint.euler_xyz_deg is not None:
            orientation = quat_from_euler_deg(*waypoint.euler_xyz_deg)
        elif waypoint.quat_xyzw is not None:
            orientation = quat_from_xyzw(waypoint.quat_xyzw)
        elif waypoint.rotation_matrix is not None:
            orientation = quat_from_matrix(waypoint.rotation_matrix)
    except ValueError as error:
        raise EnvironmentFault(str(error), code="invalid_waypoint") from error
    return Target(np.array(waypoint.xyz), orientation)


def _wire_target(target: Target) -> MotionTarget:
    x, y, z = (float(part) for part in target.xyz)
    if target.quat_wxyz is None:
        return MotionTarget(x=x, y=y, z=z)
    roll, pitch, yaw = euler_deg_from_quat(target.quat_wxyz)
    return MotionTarget(x=x, y=y, z=z, roll=roll, pitch=pitch, yaw=yaw)
