"""Embedded servers answer without waiting for an acknowledgement."""

from __future__ import annotations

import socket

from openeta_exp.embedded.listening import listen


def test_accepted_connections_send_at_once() -> None:
    with listen("127.0.0.1", 0) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with client, accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
