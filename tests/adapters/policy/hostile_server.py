"""A policy server that speaks protocol 1 and misbehaves as told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from openeta_exp.wire.vla_eval import Frame, MessageType, pack, unpack

Misbehaviour = Callable[["Session", Frame], bool]
"""Looks at a message before it is answered; True says that it was dealt with."""


class Session:
    """One connection. The right action for an observation is its own number."""

    def __init__(self, connection: ServerConnection, state: State) -> None:
        self.connection = connection
        self.state = state

    def send(self, kind: MessageType, payload: dict[str, Any], seq: int) -> None:
        self.connection.send(pack(kind, payload, seq=seq))

    def act(self, frame: Frame) -> None:
        """The right answer, late or not."""
        self.send("action", {"actions": answer_to(frame.payload)}, frame.seq)


class State:
    """What the server remembers across connections."""

    def __init__(self) -> None:
        self.episodes = 0
        self.observations = 0
        self.connections = 0
        self.ended = 0
        self.release = threading.Event()
        self.late: list[Frame] = []


def answer_to(observation: dict[str, Any]) -> np.ndarray[Any, Any]:
    """`[2]` the observation's number, twice."""
    return np.full(2, observation["number"], dtype=np.float32)


@contextmanager
def serving(misbehave: Misbehaviour | None = None, *, port: int = 0) -> Iterator[tuple[str, State]]:
    """A server on a free port; yields its address and what it remembers."""
    state = State()
    server = _listening(misbehave, state, port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}", state
    finally:
        state.release.set()
        server.shutdown()
        thread.join(timeout=5)


def _listening(misbehave: Misbehaviour | None, state: State, port: int) -> Server:
    def handle(connection: ServerConnection) -> None:
        state.connections += 1
        session = Session(connection, state)
        try:
            for message in connection:
                _answer(session, unpack(message), misbehave)
        except ConnectionClosed:
            return

    return serve(handle, "127.0.0.1", port, compression=None, max_size=None)


def _answer(session: Session, frame: Frame, misbehave: Misbehaviour | None) -> None:
    if frame.type == "episode_start":
        session.state.episodes += 1
    elif frame.type == "observation":
        session.state.observations += 1
    elif frame.type == "episode_end":
        session.state.ended += 1
    if misbehave is not None and misbehave(session, frame):
        return
    if frame.type == "hello":
        session.send("hello", {"protocol_version": 1, "model_server": "Hostile"}, frame.seq)
    elif frame.type == "observation":
        session.act(frame)
