"""The environment process: `python -m openeta_exp.embedded.simulator.worker --fd N --parent PID`.

It serves one environment at a time over the socket it inherits and ends with its server,
whatever ends that: the kernel kills it when the parent dies, and a reader thread ends it when
the socket closes, even in the middle of a long physics call.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import logging
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from functools import partial
from types import TracebackType
from typing import assert_never

from openeta_exp.embedded.simulator.backend import Backend, EnvironmentFault
from openeta_exp.embedded.simulator.channel import (
    LENGTHS,
    REQUEST,
    Answer,
    Build,
    Built,
    Follow,
    Grip,
    Move,
    Observe,
    Request,
    Reset,
    Step,
    TellFrame,
    pack,
)
from openeta_exp.embedded.simulator.env_ids import LiberoId, TabletopId, parse_env_id
from openeta_exp.embedded.simulator.environment import Environment
from openeta_exp.embedded.simulator.observing import View
from openeta_exp.embedded.simulator.replies import (
    ControlSpec,
    MotionReply,
    Observation,
    StepReply,
    TrajectoryReply,
)
from openeta_exp.embedded.simulator.tabletop.adapter import TabletopBackend
from openeta_exp.embedded.simulator.tabletop.scene import TabletopScene
from openeta_exp.embedded.simulator.tabletop.tasks import TASKS

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1


class Worker:
    """Answers requests, one after another, in the thread that owns the simulator and its GL."""

    def __init__(self, gl: str) -> None:
        self._gl = gl
        self._environment: Environment | None = None
        self._env_id = ""

    def answer(self, request: Request) -> tuple[Answer, bytes]:
        """The reply to one request; an `EnvironmentFault` is an answer, anything else a crash."""
        try:
            if isinstance(request, Build):
                return self._build(request), b""
            if self._environment is None:
                raise EnvironmentFault("nothing was built", code="not_built")
            return _serve(self._environment, request)
        except EnvironmentFault as fault:
            return Answer(error=str(fault), code=fault.code), b""

    def _build(self, request: Build) -> Answer:
        if self._environment is None or self._env_id != request.env_id:
            scene = self._give_up()
            # Before the next scene is built: two at once would be twice the memory.
            _return_free_memory()
            backend = build_backend(request.env_id, scene)
            self._environment = Environment(backend, env_id=request.env_id, gl=self._gl)
            self._env_id = request.env_id
            _return_free_memory()
        backend = self._environment.backend
        unknown = [name for name in request.cameras if name not in backend.cameras]
        if unknown:
            raise EnvironmentFault(
                f"no camera named {unknown}; there are {sorted(backend.cameras)}",
                code="unknown_camera",
            )
        self._environment.open(
            View(
                width=request.width,
                height=request.height,
                cameras=request.cameras,
                depth=request.depth,
                include_objects=request.include_objects,
                quality=request.quality,
            )
        )
        return Answer(
            built=Built(
                task=backend.task,
                backend=backend.name,
                robot=backend.robot,
                control_spec=ControlSpec(
                    control_hz=backend.scale.control_hz,
                    metres_per_unit=backend.scale.metres,
                    radians_per_unit=backend.scale.radians,
                ),
            )
        )

    def _give_up(self) -> TabletopScene | None:
        """Close the environment, keeping what every tabletop task shares."""
        if self._environment is None:
            return None
        backend = self._environment.backend
        self._environment.close()
        self._environment = None
        return backend.scene if isinstance(backend, TabletopBackend) else None


def _return_free_memory() -> None:
    """Give back what building needed: 100 MB for LIBERO, for as long as the process lives."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def build_backend(env_id: str, scene: TabletopScene | None = None) -> Backend:
    """The simulator behind an env id, on a tabletop scene that is already there, if there is.

    Raises:
        EnvironmentFault: If the id is malformed or names nothing installed here.
    """
    try:
        parsed = parse_env_id(env_id)
    except ValueError as error:
        raise EnvironmentFault(str(error), code="unknown_env_id") from error
    match parsed:
        case TabletopId(slug=slug):
            if slug not in TASKS:
                raise EnvironmentFault(
                    f"no tabletop task {slug!r}; there are {sorted(TASKS)}", code="unknown_env_id"
                )
            return TabletopBackend(TASKS[slug], scene)
        case LiberoId():
            from openeta_exp.embedded.simulator.libero_backend import LiberoBackend

            return LiberoBackend(parsed)
        case _:
            assert_never(parsed)


def _serve(environment: Environment, request: Request) -> tuple[Answer, bytes]:
    reply: Observation | StepReply | MotionReply | TrajectoryReply
    match request:
        case Reset(seed=seed, render=render):
            reply = environment.reset(seed, render=render)
        case Observe(render=render):
            reply = environment.observe(render=render)
        case Step(arguments=arguments):
            reply = environment.step(arguments)
        case Move(arguments=arguments):
            reply = environment.move_to(arguments)
        case Follow(arguments=arguments):
            reply = environment.follow(arguments)
        case Grip(open_fingers=open_fingers, num_steps=num_steps, render=render):
            reply = environment.grip(open_fingers=open_fingers, num_steps=num_steps, render=render)
        case TellFrame(digest=digest):
            truth = environment.frame_truth(digest)
            return Answer(), b"" if truth is None else truth.to_npz()
        case Build():
            raise EnvironmentFault("already built", code="already_built")
        case _:
            assert_never(request)
    observation = reply if isinstance(reply, Observation) else reply.observation
    text = reply.model_dump_json(exclude_none=True)
    return Answer(frames=tuple(observation.metadata.frames.values())), text.encode("utf-8")


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have gone before the line above ran.
    if os.getppid() != parent:
        os._exit(0)


def _receive(connection: socket.socket, inbox: queue.SimpleQueue[bytes]) -> None:
    """Reader thread: pass requests on, end the process when the server is gone."""
    stream = connection.makefile("rb")
    while lengths := stream.read(LENGTHS.size):
        header_length, body_length = LENGTHS.unpack(lengths)
        header = stream.read(header_length)
        stream.read(body_length)
        if len(header) < header_length:
            break
        inbox.put(header)
    os._exit(0)


def _say_why(
    connection: socket.socket,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """A crash ends the process, but not without telling the server what it was."""
    sys.__excepthook__(kind, error, trace)
    words = "".join(traceback.format_exception_only(kind, error)).strip()
    connection.sendall(pack(Answer(last_words=words)))
    os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="openeta_exp.embedded.simulator.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--gl", required=True)
    options = parser.parse_args()
    die_with(options.parent)
    # A terminal's Ctrl-C reaches the whole group; the server decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Simulators print; standard output may be the server's own protocol.
    os.dup2(2, 1)
    connection = socket.socket(fileno=options.fd)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    sys.excepthook = partial(_say_why, connection)
    worker = Worker(options.gl)
    while True:
        answer, body = worker.answer(REQUEST.validate_json(inbox.get()))
        connection.sendall(pack(answer, body))


if __name__ == "__main__":
    main()
