"""A listening socket for the embedded servers."""

from __future__ import annotations

import socket


def listen(host: str, port: int) -> socket.socket:
    """A TCP socket that answers at once; port 0 takes a free one.

    asyncio turns Nagle's algorithm off only for sockets that name their protocol, and those of
    `socket.create_server` do not: every reply would then wait some 45 ms for the client's
    delayed acknowledgement. Accepted connections inherit the option.

    Raises:
        OSError: If the address is taken or not ours.
    """
    listener = socket.create_server((host, port))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
