"""Whatever a policy server does, no action is applied to an observation it does not answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openeta_exp.adapters.policy.vla_eval_client import VlaEvalPolicy, build
from openeta_exp.errors import PolicyError
from openeta_exp.wire.vla_eval import Frame
from tests.adapters.policy.hostile_server import Misbehaviour, Session, answer_to, serving

STEPS = 4
EPISODES = 8


def drive(policy: VlaEvalPolicy, episodes: int = EPISODES) -> list[str]:
    """Run episodes of numbered observations; the failures' codes, `ok` for the others.

    Raises:
        AssertionError: An action answers another observation.
    """
    ends, numbered = [], 0
    for episode in range(episodes):
        end = "ok"
        try:
            policy.start_episode({"name": "task", "episode": episode})
            for _ in range(STEPS):
                numbered += 1
                reply = policy.act({"number": numbered})
                assert np.array_equal(np.asarray(reply["actions"]), answer_to({"number": numbered}))
        except PolicyError as error:
            end = error.code
        policy.end_episode({"steps": STEPS})
        ends.append(end)
    return ends


def once(frame_type: str, at: int, do: Callable[[Session, Frame], None]) -> Misbehaviour:
    """Misbehave at the `at`-th message of a kind, and never again."""
    seen = 0

    def misbehave(session: Session, frame: Frame) -> bool:
        nonlocal seen
        if frame.type == frame_type:
            seen += 1
            if seen == at:
                do(session, frame)
                return True
        return False

    return misbehave


def client(url: str, **options: Any) -> VlaEvalPolicy:
    return VlaEvalPolicy(url, **{"connect_timeout_s": 2.0, "act_timeout_s": 1.0, **options})


def test_an_honest_server_answers_every_observation() -> None:
    with serving() as (url, state):
        assert drive(client(url)) == ["ok"] * EPISODES
    assert (state.connections, state.episodes, state.ended) == (1, EPISODES, EPISODES)


def test_one_failed_episode_start_costs_one_episode() -> None:
    """The server still answers the first observation; that answer must not go to the second."""

    def fail(session: Session, frame: Frame) -> None:
        session.send("error", {"error": "episode_start_failed: once"}, frame.seq)

    with serving(once("episode_start", 2, fail)) as (url, _):
        ends = drive(client(url))

    assert ends == ["ok", "policy_start_failed", *["ok"] * (EPISODES - 2)]


def test_an_error_instead_of_an_action_costs_one_episode() -> None:
    def fail(session: Session, frame: Frame) -> None:
        session.send("error", {"error": "observation_failed: out of memory"}, frame.seq)

    with serving(once("observation", 6, fail)) as (url, _):
        ends = drive(client(url))

    assert ends == ["ok", "policy_act_failed", *["ok"] * (EPISODES - 2)]


def test_a_stall_costs_one_episode_and_its_late_answer_is_never_used() -> None:
    def stall(session: Session, frame: Frame) -> None:
        session.state.release.wait(1.5)
        session.act(frame)

    with serving(once("observation", 6, stall)) as (url, _):
        ends = drive(client(url))

    assert ends == ["ok", "policy_timeout", *["ok"] * (EPISODES - 2)]


def test_answers_to_older_observations_are_dropped() -> None:
    def late(session: Session, frame: Frame) -> bool:
        if frame.type == "observation":
            for old in session.state.late[-2:]:
                session.act(old)
            session.state.late.append(frame)
        return False

    with serving(late) as (url, _):
        policy = client(url)
        assert drive(policy) == ["ok"] * EPISODES
    assert policy.strays > EPISODES


def test_an_answer_that_comes_twice_is_used_once() -> None:
    def twice(session: Session, frame: Frame) -> bool:
        if frame.type == "observation":
            session.act(frame)
        return False

    with serving(twice) as (url, _):
        assert drive(client(url)) == ["ok"] * EPISODES


@pytest.mark.parametrize("kind", ["future", "garbage", "text", "wrong_type"])
def test_a_reply_that_makes_no_sense_costs_one_episode(kind: str) -> None:
    def confuse(session: Session, frame: Frame) -> None:
        match kind:
            case "future":
                session.send("action", {"actions": np.zeros(2)}, frame.seq + 5)
            case "garbage":
                session.connection.send(b"\xc1\xff\x00")
            case "text":
                session.connection.send("hello there")
            case _:
                session.send("hello", {"protocol_version": 1}, frame.seq)
        session.act(frame)

    with serving(once("observation", 6, confuse)) as (url, _):
        ends = drive(client(url))

    assert ends == ["ok", "policy_out_of_order", *["ok"] * (EPISODES - 2)]


def test_a_server_that_dies_costs_the_rest_little_time() -> None:
    def die(session: Session, frame: Frame) -> bool:
        if session.state.episodes > 5:
            session.connection.close_socket()
        return session.state.episodes > 5

    with serving(die) as (url, _):
        policy = client(url)
        ends = drive(policy, episodes=6)
    began = time.monotonic()
    ends += drive(policy, episodes=2)
    first_s = time.monotonic() - began
    began = time.monotonic()
    ends += drive(policy, episodes=1)

    assert ends == [*["ok"] * 5, "policy_disconnected", *["policy_unreachable"] * 3]
    assert time.monotonic() - began < first_s


def test_a_server_that_comes_back_is_used_again() -> None:
    with serving() as (url, _):
        policy = client(url)
        assert drive(policy, episodes=2) == ["ok", "ok"]
    assert drive(policy, episodes=1) != ["ok"]
    with serving(port=int(url.rpartition(":")[2])):
        # The first attempt may still find the connection of the server that is gone.
        assert drive(policy, episodes=2)[-1] == "ok"


def test_a_server_that_is_not_up_yet_is_waited_for() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = threading.Event()
    done = threading.Event()

    def serve_late() -> None:
        started.wait()
        with serving(port=port):
            done.wait(10)

    thread = threading.Thread(target=serve_late)
    thread.start()
    policy = client(f"ws://127.0.0.1:{port}", connect_timeout_s=10.0)
    threading.Timer(0.3, started.set).start()
    try:
        assert drive(policy, episodes=1) == ["ok"]
    finally:
        done.set()
        thread.join()


def test_another_protocol_is_refused_by_number() -> None:
    def greet(session: Session, frame: Frame) -> None:
        session.send("hello", {"protocol_version": 7}, frame.seq)

    with (
        serving(once("hello", 1, greet)) as (url, _),
        pytest.raises(PolicyError, match="speaks protocol 7, not 1"),
    ):
        client(url).describe()


def test_an_address_that_is_none_is_a_policy_error() -> None:
    with pytest.raises(PolicyError, match="no ws:// address"):
        client("http//nowhere").start_episode({})


def test_an_observation_the_protocol_has_no_form_for_costs_no_connection() -> None:
    with serving() as (url, state):
        policy = client(url)
        policy.start_episode({})
        with pytest.raises(PolicyError, match="cannot be encoded"):
            policy.act({"number": object()})
        assert policy.act({"number": 3})["actions"].tolist() == [3, 3]
    assert state.connections == 1


def test_a_server_that_replies_with_chunks_is_asked_once_per_chunk() -> None:
    def chunk(session: Session, frame: Frame) -> bool:
        if frame.type != "observation":
            return False
        first = frame.payload["number"]
        actions = np.array([[first, step] for step in range(4)], dtype=np.float32)
        session.send("action", {"actions": actions}, frame.seq)
        return True

    with serving(chunk) as (url, state):
        policy = build(url=url, chunk_size=4)
        policy.start_episode({})
        answers = [policy.act({"number": n})["actions"].tolist() for n in range(8)]

    assert answers == [[0, 0], [0, 1], [0, 2], [0, 3], [4, 0], [4, 1], [4, 2], [4, 3]]
    assert state.observations == 2


@pytest.mark.parametrize("images", ["raw", "png"])
def test_images_arrive_as_they_were_sent(images: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(16, 12, 3), dtype=np.uint8)
    seen: list[np.ndarray[Any, Any]] = []

    def look(session: Session, frame: Frame) -> bool:
        if frame.type == "observation":
            seen.append(frame.payload["images"]["front"])
        return False

    with serving(look) as (url, _):
        policy = client(url, images=images)
        policy.start_episode({})
        policy.act({"number": 1, "images": {"front": pixels}})

    assert np.array_equal(seen[0], pixels)
