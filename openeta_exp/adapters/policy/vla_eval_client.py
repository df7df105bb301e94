"""A vla-eval model server as a policy: every answer belongs to the observation it is used for.

Nothing is assumed of the server. A reply counts only if it carries the number of the very
observation that waits for it; older ones are dropped; after anything unexpected the connection
is given up, because what is still in it belongs to the past.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.sync.client import ClientConnection, connect

from openeta_exp.adapters.policy.chunks import ActionChunks, ChunkedPolicy, Ensemble
from openeta_exp.errors import PolicyError
from openeta_exp.wire.vla_eval import (
    PROTOCOL_VERSION,
    Frame,
    FrameError,
    ImageFormat,
    MessageType,
    pack,
    unpack,
)

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0


class VlaEvalPolicy:
    """One connection to one server, renewed after every failure.

    Attributes:
        connect_timeout_s: How long a server may take to come up. Once that has passed in vain,
            later attempts wait `_LONGEST_PAUSE_S` only, so that a dead server costs each of the
            remaining episodes little.
        act_timeout_s: How long one answer may take.
    """

    in_process = False

    def __init__(
        self,
        url: str,
        *,
        images: ImageFormat = "raw",
        connect_timeout_s: float = 30.0,
        act_timeout_s: float = 30.0,
        requires: Sequence[str] | None = None,
    ) -> None:
        self._url = url
        self._images: ImageFormat = images
        self._connect_timeout_s = connect_timeout_s
        self._act_timeout_s = act_timeout_s
        self._requires = requires
        self._connection: ClientConnection | None = None
        self._held = contextlib.ExitStack()
        self._hello: dict[str, Any] = {}
        self._seq = 0
        self._start_seq = 0
        self._unreachable = False
        self.strays = 0
        """Replies that belonged to no waiting observation and were dropped."""

    def start_episode(self, task: Mapping[str, Any]) -> None:
        """The server answers only if it fails, so a failure is found by the first `act`."""
        connection = self._connected()
        self._start_seq = self._send(connection, "episode_start", {"task": dict(task)})

    def act(self, observation: dict[str, Any]) -> Mapping[str, Any]:
        connection = self._connection
        if connection is None:
            raise PolicyError("the connection was lost in this episode", code="policy_disconnected")
        seq = self._send(connection, "observation", observation)
        return self._reply(connection, seq).payload

    def end_episode(self, result: Mapping[str, Any]) -> None:
        if self._connection is None:
            return
        with contextlib.suppress(PolicyError):
            self._send(self._connection, "episode_end", dict(result))

    def describe(self) -> dict[str, Any]:
        self._connected()
        hello = self._hello
        spec = hello.get("observation_spec")
        return {
            "identity": {
                "kind": "vla_eval_server",
                "model_server": hello.get("model_server"),
                "harness_version": hello.get("harness_version"),
                "observation_params": hello.get("observation_params"),
                "action_spec": hello.get("action_spec"),
            },
            "requires": hello.get("requires") if self._requires is None else list(self._requires),
            "action_spec": hello.get("action_spec"),
            "observation_spec": spec,
        }

    def close(self) -> None:
        self._give_up()

    def _connected(self) -> ClientConnection:
        """The connection, opened and greeted.

        Raises:
            PolicyError: No server answers within the time limit, or it is not protocol 1.
        """
        if self._connection is not None:
            return self._connection
        patience = _LONGEST_PAUSE_S if self._unreachable else self._connect_timeout_s
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE_S
        while True:
            try:
                self._connection = self._open(max(deadline - time.monotonic(), _FIRST_PAUSE_S))
                break
            except (OSError, InvalidHandshake, EOFError) as error:
                if time.monotonic() + pause > deadline:
                    self._unreachable = True
                    raise PolicyError(
                        f"no policy server at {self._url}: {error}", code="policy_unreachable"
                    ) from error
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            except InvalidURI as error:
                raise PolicyError(
                    f"{self._url!r} is no ws:// address", code="policy_unreachable"
                ) from error
        self._unreachable = False
        self._greet(self._connection)
        return self._connection

    def _open(self, timeout_s: float) -> ClientConnection:
        return self._held.enter_context(
            connect(
                self._url,
                compression=None,
                max_size=None,
                ping_interval=None,
                open_timeout=timeout_s,
                close_timeout=_LONGEST_PAUSE_S,
                # A policy server is addressed directly, never through the web's proxy.
                proxy=None,
            )
        )

    def _greet(self, connection: ClientConnection) -> None:
        from openeta_exp import __name__ as product

        payload = {"harness_version": product, "protocol_version": PROTOCOL_VERSION}
        seq = self._send(connection, "hello", payload)
        hello = self._reply(connection, seq, expected="hello").payload
        if hello.get("protocol_version") != PROTOCOL_VERSION:
            self._give_up()
            raise PolicyError(
                f"{self._url} speaks protocol {hello.get('protocol_version')!r}, "
                f"not {PROTOCOL_VERSION}",
                code="policy_protocol_mismatch",
            )
        self._hello = hello

    def _send(
        self, connection: ClientConnection, kind: MessageType, payload: Mapping[str, Any]
    ) -> int:
        self._seq += 1
        try:
            connection.send(pack(kind, payload, seq=self._seq, images=self._images))
        except FrameError as error:
            # Nothing was sent, so the connection is still good.
            raise PolicyError(str(error), code="policy_observation_unencodable") from error
        except (ConnectionClosed, OSError) as error:
            self._give_up()
            raise PolicyError(
                f"{self._url} closed the connection: {error}", code="policy_disconnected"
            ) from error
        return self._seq

    def _reply(self, connection: ClientConnection, seq: int, expected: str = "action") -> Frame:
        """The reply to message `seq`, waited for until the time limit, strays dropped."""
        deadline = time.monotonic() + self._act_timeout_s
        while True:
            frame = self._receive(connection, deadline)
            if frame.type == "error" and frame.seq in (seq, self._start_seq):
                # An answer to the observation may still be on its way.
                self._give_up()
                phase = "act" if frame.seq == seq else "episode start"
                raise PolicyError(
                    f"{self._url} failed at {phase}: {frame.payload.get('error')}",
                    code="policy_act_failed" if frame.seq == seq else "policy_start_failed",
                )
            if frame.seq == seq and frame.type == expected:
                return frame
            if frame.seq >= seq:
                self._give_up()
                raise PolicyError(
                    f"{self._url} sent {frame.type} {frame.seq}, where {expected} {seq} was due",
                    code="policy_out_of_order",
                )
            self.strays += 1

    def _receive(self, connection: ClientConnection, deadline: float) -> Frame:
        try:
            return unpack(connection.recv(timeout=max(deadline - time.monotonic(), 0.0)))
        except TimeoutError as error:
            self._give_up()
            raise PolicyError(
                f"{self._url} gave no answer in {self._act_timeout_s:g} s", code="policy_timeout"
            ) from error
        except (ConnectionClosed, OSError) as error:
            self._give_up()
            raise PolicyError(
                f"{self._url} closed the connection: {error}", code="policy_disconnected"
            ) from error
        except FrameError as error:
            self._give_up()
            raise PolicyError(f"{self._url} sent {error}", code="policy_out_of_order") from error

    def _give_up(self) -> None:
        """Drop the connection with everything that may still be in it."""
        connection, self._connection = self._connection, None
        self._start_seq = 0
        if connection is not None:
            # At once: a closing handshake would wait for a server that may hang.
            connection.close_socket()
            self._held.close()


def build(
    *,
    url: str,
    images: ImageFormat = "raw",
    connect_timeout_s: float = 30.0,
    act_timeout_s: float = 30.0,
    chunk_size: int | None = None,
    ensemble: Ensemble = "newest",
    ema_alpha: float = 0.5,
    replan_every: int | None = None,
    requires: Sequence[str] | None = None,
) -> VlaEvalPolicy | ChunkedPolicy:
    """The policy behind a URL; `chunk_size` is for servers that reply with whole chunks.

    Args:
        requires: Observation keys the model needs, dotted, if the server does not say so.
    """
    policy = VlaEvalPolicy(
        url,
        images=images,
        connect_timeout_s=connect_timeout_s,
        act_timeout_s=act_timeout_s,
        requires=requires,
    )
    if chunk_size is None:
        return policy
    return ChunkedPolicy(
        policy,
        ActionChunks(
            chunk_size=chunk_size,
            ensemble=ensemble,
            ema_alpha=ema_alpha,
            replan_every=replan_every,
        ),
    )
