"""The worker process: reads requests from its standard input and answers each of them.

A message is four bytes of length, big-endian, and that many bytes of JSON. Whatever the adapter
prints goes to standard error. The process ends when its standard input does, after cleaning up.
"""

from __future__ import annotations

import _thread
import json
import os
import platform
import queue
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from openeta_exp.catalog.host.adapter import Adapter
from openeta_exp.catalog.host.blame import ADAPTER, Blame, BrokenEpisodeError
from openeta_exp.catalog.host.episode import Episode, Report, run_episode
from openeta_exp.catalog.host.judging import Judgement, Rules, load
from openeta_exp.catalog.host.probing_policies import probe_policies
from openeta_exp.catalog.host.probing_resets import probe_resets
from openeta_exp.catalog.host.recording import Recorder
from openeta_exp.catalog.host.values import Json, plain

_HEADER = struct.Struct(">I")
_GRACE_S = 20.0
"""How long an orphaned process may take to clean up."""


class Worker:
    """One adapter at a time, and every policy that was asked for, kept between requests."""

    def __init__(self) -> None:
        self._adapter: Adapter | None = None
        self._scene: str | None = None
        self._action_dim: int | None = None
        self._judgement: Judgement | None = None
        self._judged: str | None = None
        self._policies: dict[str, Any] = {}
        self._actions: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "describe": self._describe,
            "describe_policy": self._describe_policy,
            "episode": self._episode,
            "resets": self._resets,
            "policies": self._probe_policies,
        }

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request. Floats in the answer are finite, whatever was measured."""
        try:
            reply = plain(self._actions[request["do"]](request))
        except BrokenEpisodeError as error:
            return {"error": _failure(error)}
        assert isinstance(reply, dict)
        return reply

    def close(self) -> None:
        for policy in self._policies.values():
            with _Ignoring():
                policy.close()
        if self._adapter is not None:
            self._adapter.close()
        self._adapter, self._policies = None, {}

    def _describe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        adapter = self._open(request["scene"])
        selected = adapter.task(request["instruction"], request["provider_ref"])
        return {
            **adapter.describe(),
            "selected": plain(selected),
            "python": platform.python_version(),
        }

    def _describe_policy(self, request: Mapping[str, Any]) -> dict[str, Any]:
        policy = self._policy(request["policy"])
        with Blame("build_policy"):
            described: dict[str, Any] = policy.describe()
        return described

    def _episode(self, request: Mapping[str, Any]) -> dict[str, Any]:
        wanted, output = request["episode"], request["output"]
        adapter = self._open(request["scene"])
        policy = self._policy(request["policy"])
        recorder = Recorder(
            session_id=output["session_id"],
            episode_id=output["execution_id"],
            keep_video=output["video_dir"] is not None,
        )
        report = run_episode(
            adapter,
            policy,
            Episode(**{**wanted, "perturbations": tuple(wanted["perturbations"])}),
            judgement=self._judge(request["rules"]),
            recorder=recorder,
            action_dim=self._action_dim,
        )
        if report.failure is None:
            # What this adapter was driven with; a policy that answers otherwise later is broken.
            self._action_dim = report.action_dim
        if report.failure is not None and report.failure.failure_class == ADAPTER:
            # Its state is unknown now; the next episode gets a new one.
            self._drop_adapter()
        return {**_told(report), **_kept(recorder, output)}

    def _resets(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["fresh"]:
            self._drop_adapter()
        return probe_resets(self._open(request["scene"]), **request["probe"])

    def _probe_policies(self, request: Mapping[str, Any]) -> dict[str, Any]:
        policies = {name: self._policy(each) for name, each in request["policies"].items()}
        return probe_policies(self._open(request["scene"]), policies, **request["probe"])

    def _open(self, scene: Mapping[str, Any]) -> Adapter:
        key = json.dumps(scene, sort_keys=True)
        if self._adapter is None or self._scene != key:
            self._drop_adapter()
            if self._scene != key:
                self._action_dim = None
            self._adapter = Adapter(scene["provider"], scene["params"], render=scene["render"])
            self._scene = key
        return self._adapter

    def _drop_adapter(self) -> None:
        if self._adapter is not None:
            self._adapter.close()
        self._adapter = None

    def _policy(self, recipe: Mapping[str, Any]) -> Any:
        key = json.dumps(recipe, sort_keys=True)
        if key not in self._policies:
            with Blame("build_policy"):
                factory: Any = load(recipe["factory"])
                self._policies[key] = factory(**recipe["arguments"])
        return self._policies[key]

    def _judge(self, rules: Mapping[str, Any]) -> Judgement:
        key = json.dumps(rules, sort_keys=True)
        if self._judgement is None or self._judged != key:
            with Blame("judge"):
                self._judgement, self._judged = Judgement(Rules(**rules)), key
        return self._judgement


def _told(report: Report) -> dict[str, Any]:
    return {
        "steps": report.steps,
        "success": report.success,
        "finished": report.finished,
        "result": report.result,
        "metrics": report.metrics,
        "phases": report.phases,
        "unmet": report.unmet,
        "reward": report.reward,
        "initial_digest": report.initial_digest,
        "initial_images": report.initial_images,
        "observation_keys": report.observation_keys,
        "task_access": report.task_access,
        "receipts": report.receipts,
        "action_dim": report.action_dim,
        "actions_constant": report.actions_constant and report.steps > 1,
        "latency": _latency(report.latency_ns),
        "failure": None if report.failure is None else _failure(report.failure),
    }


def _kept(recorder: Recorder, output: Mapping[str, Any]) -> dict[str, Any]:
    """Step records and video: in files if folders are given, step records inline otherwise."""
    kept: dict[str, Any] = {"step_records": [], "steps_file": None, "video_file": None}
    if output["steps_dir"] is None:
        kept["step_records"] = recorder.rows
    elif recorder.rows:
        kept["steps_file"] = recorder.write_steps(Path(output["steps_dir"]))
    if output["video_dir"] is not None:
        kept["video_file"] = recorder.write_video(Path(output["video_dir"]))
    return kept


def _latency(samples_ns: list[int]) -> dict[str, Json] | None:
    """Seconds per answer of the policy; None if it gave none."""
    if not samples_ns:
        return None
    ordered = sorted(samples_ns)

    def at(fraction: float) -> float:
        return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)] / 1e9

    return {
        "count": len(ordered),
        "mean_s": sum(ordered) / len(ordered) / 1e9,
        "p50_s": at(0.5),
        "p95_s": at(0.95),
        "max_s": ordered[-1] / 1e9,
    }


def _failure(error: BrokenEpisodeError) -> dict[str, Json]:
    return {
        "failure_class": error.failure_class,
        "code": error.code,
        "error_type": error.error_type,
        "message": str(error),
    }


class _Ignoring:
    """Closing a policy must not stop the next one from being closed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, Exception)


def read_message(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None at the end of the stream."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    (length,) = _HEADER.unpack(header)
    content = stream.read(length)
    if len(content) < length:
        return None
    message: dict[str, Any] = json.loads(content)
    return message


def write_message(stream: BinaryIO, message: Mapping[str, Any]) -> None:
    content = json.dumps(message, allow_nan=False).encode()
    stream.write(_HEADER.pack(len(content)) + content)
    stream.flush()


def main() -> None:
    """Serve until standard input ends. Arguments: JSON list of directories to import from."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    # Adapters and simulators print; the protocol has its own descriptors.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.path[:0] = json.loads(sys.argv[2])
    waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    busy = threading.Event()

    def read() -> None:
        while (message := read_message(requests)) is not None:
            waiting.put(message)
        waiting.put(None)
        if busy.is_set():
            # The other side is gone in the middle of a request: stop it, then clean up.
            _thread.interrupt_main()
        threading.Timer(_GRACE_S, os._exit, args=(1,)).start()

    threading.Thread(target=read, daemon=True).start()
    worker = Worker()
    try:
        while (request := waiting.get()) is not None:
            busy.set()
            reply = worker.answer(request)
            busy.clear()
            write_message(replies, reply)
    except (KeyboardInterrupt, BrokenPipeError):
        return
    finally:
        worker.close()
        os._exit(0)
