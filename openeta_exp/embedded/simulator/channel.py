"""The private wire between the server and one environment process.

A message is a JSON header and a byte body, each preceded by its length as a big-endian
32-bit integer. The server asks, the process answers, one at a time, over a socket pair.
"""

from __future__ import annotations

import struct
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from openeta_exp.domain.record import Record
from openeta_exp.embedded.simulator.arguments import (
    FollowEefTrajectory,
    MoveTo,
    Pixels,
    StepEnv,
)
from openeta_exp.embedded.simulator.rendering_quality import Quality
from openeta_exp.embedded.simulator.replies import ControlSpec

LENGTHS = struct.Struct(">II")
"""Header length, body length."""


class Build(Record):
    """Have the environment of this id ready, and look at it this way."""

    kind: Literal["build"] = "build"
    env_id: str
    width: Pixels
    height: Pixels
    cameras: tuple[str, ...]
    depth: bool
    include_objects: bool
    quality: Quality


class Reset(Record):
    kind: Literal["reset"] = "reset"
    seed: int
    render: bool


class Step(Record):
    kind: Literal["step"] = "step"
    arguments: StepEnv


class Move(Record):
    kind: Literal["move"] = "move"
    arguments: MoveTo


class Follow(Record):
    kind: Literal["follow"] = "follow"
    arguments: FollowEefTrajectory


class Grip(Record):
    kind: Literal["grip"] = "grip"
    open_fingers: bool
    num_steps: int
    render: bool


class Observe(Record):
    kind: Literal["observe"] = "observe"
    render: bool


class TellFrame(Record):
    """Asks for the truth of a frame; the answer's body is an npz, or empty if unknown."""

    kind: Literal["frame"] = "frame"
    digest: str


Request = Annotated[
    Build | Reset | Step | Move | Follow | Grip | Observe | TellFrame, Field(discriminator="kind")
]
REQUEST: TypeAdapter[Request] = TypeAdapter(Request)


class Built(Record):
    """What a process says about an environment it has ready."""

    task: str
    backend: str
    robot: str
    control_spec: ControlSpec


class Answer(Record):
    """Header of a reply. The body is the JSON text of the tool's result, or an npz."""

    built: Built | None = None
    frames: tuple[str, ...] = ()
    """Digests of the frames in the body."""
    error: str | None = None
    """Why there is no result; the process is still usable."""
    code: str | None = None
    last_words: str | None = None
    """The exception the process is dying of."""


def pack(header: Record, body: bytes = b"") -> bytes:
    head = header.to_json().encode("utf-8")
    return LENGTHS.pack(len(head), len(body)) + head + body
