"""The simulator service: sessions, handles and lifetimes over a pool of environment processes."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

import anyio
from pydantic import Field

from openeta_exp.domain.record import Record
from openeta_exp.embedded.simulator.arguments import (
    CloseEnv,
    CreateEnv,
    FollowEefTrajectory,
    HandleArguments,
    ListActiveEnvs,
    ListEnvs,
    MoveGripper,
    MoveTo,
    ObserveEnv,
    ResetEnv,
    SearchEnvs,
    StepEnv,
)
from openeta_exp.embedded.simulator.catalogue import list_environments
from openeta_exp.embedded.simulator.channel import (
    Build,
    Follow,
    Grip,
    Move,
    Observe,
    Request,
    Reset,
    Step,
    TellFrame,
)
from openeta_exp.embedded.simulator.env_ids import parse_env_id
from openeta_exp.embedded.simulator.frame_homes import FrameHomes
from openeta_exp.embedded.simulator.frames import FrameTruth
from openeta_exp.embedded.simulator.gl import Gl, working_gl
from openeta_exp.embedded.simulator.pool import PoolCounts, WorkerPool
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.replies import (
    ActiveEnv,
    CloseReply,
    CreateReply,
    ListActiveReply,
    ListEnvsReply,
    SearchEnvsReply,
)
from openeta_exp.embedded.simulator.worker_process import WorkerLost, WorkerProcess
from openeta_exp.errors import SimulatorError

logger = logging.getLogger(__name__)


class SimulatorOptions(Record):
    """How the service runs."""

    max_envs: int = Field(default=8, ge=1, le=64)
    """Environment processes alive at once, warm ones included."""
    quality: Quality = Quality.BENCHMARK
    gl_candidates: tuple[Gl, ...] = (Gl.EGL, Gl.OSMESA)
    call_timeout_s: float = Field(default=120.0, gt=0)
    """For one tool call on an environment that exists; then its process is ended."""
    build_timeout_s: float = Field(default=300.0, gt=0)
    """For building an environment; LIBERO takes about ten seconds on two cores."""
    capacity_timeout_s: float = Field(default=600.0, gt=0)
    """For waiting until some environment is closed."""
    close_grace_s: float = Field(default=5.0, gt=0)
    """For a call in flight when its environment is closed."""
    idle_ttl_s: float = Field(default=1800.0, gt=0)
    """An environment without a call for so long is closed."""


class ToolRefusal(SimulatorError):  # noqa: N818 - the fact, not the category
    """The tool cannot be run as asked. Nothing moved and the environment is as it was."""

    default_code = "tool_refused"


@dataclass(slots=True, eq=False)
class _Environment:
    """A handle's environment, from create to close."""

    handle: str
    session_id: str
    env_id: str
    backend: str
    seed: int
    worker: WorkerProcess
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    used_s: float = field(default_factory=monotonic)
    closing: bool = False


class SimulatorService:
    """Every tool of the contract as a method; replies of moving tools are their JSON text.

    The text is made in the environment's process, so the server neither encodes nor parses
    images. Calls on one handle run one after another, calls on different handles side by side.

    Use through `running`, which ends every process on the way out.
    """

    def __init__(self, options: SimulatorOptions, *, gl: Gl) -> None:
        self.options = options
        self.gl = gl
        self._pool = WorkerPool(options.max_envs, gl)
        self._environments: dict[str, _Environment] = {}
        self._frames = FrameHomes()

    @classmethod
    @asynccontextmanager
    async def running(cls, options: SimulatorOptions) -> AsyncIterator[SimulatorService]:
        """Find a GL platform, serve, and leave no process behind."""
        service = cls(options, gl=await working_gl(options.gl_candidates))
        # A task group here would wrap whatever the caller's own block raises.
        sweeper = asyncio.create_task(service._sweep())
        try:
            yield service
        finally:
            sweeper.cancel()
            with anyio.CancelScope(shield=True):
                await service.close_all()

    async def list_envs(self, arguments: ListEnvs) -> ListEnvsReply:
        listings = tuple(
            listing
            for listing in await list_environments()
            if arguments.env_type in ("", listing.type)
        )
        return ListEnvsReply(envs=listings, count=len(listings))

    async def search_envs(self, arguments: SearchEnvs) -> SearchEnvsReply:
        words = arguments.query.lower().replace("_", " ").split()
        return SearchEnvsReply(
            results=tuple(
                listing
                for listing in await list_environments()
                if all(
                    word in f"{listing.id} {listing.description}".lower().replace("_", " ")
                    for word in words
                )
            )
        )

    async def create_env(self, arguments: CreateEnv) -> CreateReply:
        """Have an environment built; it still wants a reset.

        Raises:
            ToolRefusal: The id, a camera or the lack of GL rules it out.
            SimulatorError: No process could be had or it died.
        """
        cameras = ("agentview",) if arguments.cameras is None else arguments.cameras
        if cameras and self.gl is Gl.NONE:
            raise ToolRefusal(
                "no GL platform works here, so no camera can be rendered: "
                "install libegl1 or libosmesa6, or create the environment with cameras=[]",
                code="no_gl",
            )
        try:
            env_id = parse_env_id(arguments.env_id)
        except ValueError as error:
            raise ToolRefusal(str(error), code="unknown_env_id") from error
        worker = await self._pool.take(env_id, timeout_s=self.options.capacity_timeout_s)
        kept = False
        try:
            reused = worker.affinity == env_id.affinity
            worker.affinity = env_id.affinity
            if not reused:
                self._frames.forget(worker)
            reply = await worker.call(
                Build(
                    env_id=arguments.env_id,
                    width=arguments.image_width or 256,
                    height=arguments.image_height or 256,
                    cameras=cameras,
                    depth=arguments.depth,
                    include_objects=arguments.include_objects,
                    quality=self.options.quality,
                ),
                timeout_s=self.options.build_timeout_s,
            )
            built = reply.answer.built
            if built is None:
                # The process may hold half an environment; it must not pass for a warm one.
                worker.affinity = worker.affinity if reused else ""
                raise ToolRefusal(reply.answer.error or "create_env failed", code=reply.answer.code)
            # A build is not interrupted; whoever stopped waiting for it will never close it.
            await anyio.lowlevel.checkpoint_if_cancelled()
            environment = _Environment(
                handle=uuid.uuid4().hex[:12],
                session_id=arguments.session_id or str(uuid.uuid4()),
                env_id=arguments.env_id,
                backend=built.backend,
                seed=arguments.seed,
                worker=worker,
            )
            self._environments[environment.handle] = environment
            kept = True
        finally:
            if not kept:
                with anyio.CancelScope(shield=True):
                    await self._pool.give_back(worker)
        return CreateReply(
            session_id=environment.session_id,
            handle=environment.handle,
            env_id=arguments.env_id,
            task=built.task,
            seed=arguments.seed,
            backend=built.backend,
            robot=built.robot,
            action_dim=7,
            control_spec=built.control_spec,
            action_hint="dx dy dz droll dpitch dyaw in [-1, 1], gripper -1 opens and +1 closes",
            cameras=cameras,
            gl=self.gl.value if cameras else Gl.NONE.value,
            quality=self.options.quality.value,
            reused_process=reused,
        )

    async def reset_env(self, arguments: ResetEnv) -> str:
        environment = self._find(arguments)
        if arguments.seed is not None:
            environment.seed = arguments.seed
        return await self._ask(environment, Reset(seed=environment.seed, render=arguments.render))

    async def step_env(self, arguments: StepEnv) -> str:
        return await self._ask(self._find(arguments), Step(arguments=arguments))

    async def move_to(self, arguments: MoveTo) -> str:
        return await self._ask(self._find(arguments), Move(arguments=arguments))

    async def follow_eef_trajectory(self, arguments: FollowEefTrajectory) -> str:
        return await self._ask(self._find(arguments), Follow(arguments=arguments))

    async def gripper_open(self, arguments: MoveGripper) -> str:
        return await self._grip(arguments, open_fingers=True)

    async def gripper_close(self, arguments: MoveGripper) -> str:
        return await self._grip(arguments, open_fingers=False)

    async def observe_env(self, arguments: ObserveEnv) -> str:
        return await self._ask(self._find(arguments), Observe(render=arguments.render))

    async def close_env(self, arguments: CloseEnv) -> CloseReply:
        """Close once; closing again, or closing what never was, says so and is no error."""
        environment = self._environments.get(arguments.handle)
        if environment is None or environment.closing:
            return CloseReply(already_closed=True)
        if arguments.session_id not in ("", environment.session_id):
            return CloseReply(already_closed=True)
        errors = await self._close(environment)
        return CloseReply(already_closed=False, cleanup_errors=errors)

    async def list_active_envs(self, arguments: ListActiveEnvs) -> ListActiveReply:
        active = [
            environment
            for environment in self._environments.values()
            if arguments.session_id in ("", environment.session_id)
        ]
        return ListActiveReply(
            session_id=arguments.session_id,
            count=len(active),
            envs=tuple(
                ActiveEnv(
                    index=index,
                    handle=environment.handle,
                    env_id=environment.env_id,
                    backend=environment.backend,
                    session_id=environment.session_id,
                )
                for index, environment in enumerate(active)
            ),
        )

    async def frame_truth(self, digest: str) -> FrameTruth | None:
        """See `FrameSource`."""
        content = await self.frame_archive(digest)
        return None if content is None else FrameTruth.from_npz(content)

    async def frame_archive(self, digest: str) -> bytes | None:
        """The npz of a frame this service rendered lately; None for any other.

        Raises:
            SimulatorError: The process that rendered it did not answer.
        """
        for worker in self._frames.of(digest):
            reply = await worker.call(
                TellFrame(digest=digest), timeout_s=self.options.call_timeout_s
            )
            if reply.body:
                return reply.body
        return None

    def counts(self) -> PoolCounts:
        return self._pool.counts()

    async def close_all(self) -> None:
        """End every environment and process. Idempotent."""
        self._environments.clear()
        await self._pool.close()

    async def _grip(self, arguments: MoveGripper, *, open_fingers: bool) -> str:
        request = Grip(
            open_fingers=open_fingers, num_steps=arguments.num_steps, render=arguments.render
        )
        return await self._ask(self._find(arguments), request)

    def _find(self, arguments: HandleArguments) -> _Environment:
        environment = self._environments.get(arguments.handle)
        known = environment is not None and arguments.session_id in ("", environment.session_id)
        if environment is None or not known:
            raise ToolRefusal(f"Unknown: {arguments.handle}", code="unknown_handle")
        return environment

    async def _ask(self, environment: _Environment, request: Request) -> str:
        """Run one call on an environment, after those before it.

        Raises:
            ToolRefusal: The environment refused; nothing moved.
            WorkerLost: Its process died, hung or was closed meanwhile; it is gone.
        """
        async with environment.turn:
            if environment.closing:
                raise WorkerLost("Env was closed", code="env_closed", tool=request.kind)
            environment.used_s = monotonic()
            try:
                reply = await environment.worker.call(
                    request, timeout_s=self.options.call_timeout_s
                )
            except WorkerLost as lost:
                if environment.closing:
                    raise WorkerLost(
                        "Env was closed during the call", code="env_closed", outcome_unknown=True
                    ) from lost
                raise
            finally:
                environment.used_s = monotonic()
        for digest in reply.answer.frames:
            self._frames.remember(digest, environment.worker)
        if reply.answer.error is not None:
            raise ToolRefusal(reply.answer.error, code=reply.answer.code)
        return reply.body.decode("utf-8")

    async def _close(self, environment: _Environment) -> tuple[str, ...]:
        environment.closing = True
        errors: tuple[str, ...] = ()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(self.options.close_grace_s):
                await environment.turn.acquire()
                environment.turn.release()
            if environment.turn.locked():
                errors = ("a call was still running; its process was ended",)
                await environment.worker.end()
            self._environments.pop(environment.handle, None)
            await self._pool.give_back(environment.worker)
        return errors

    async def _sweep(self) -> None:
        """Close what nobody has used for longer than the idle limit."""
        while True:
            await anyio.sleep(min(60.0, self.options.idle_ttl_s / 2))
            limit = monotonic() - self.options.idle_ttl_s
            for environment in list(self._environments.values()):
                unused = environment.used_s < limit and not environment.turn.locked()
                if unused and not environment.closing:
                    logger.warning("closing %s: unused", environment.handle)
                    await self._close(environment)
