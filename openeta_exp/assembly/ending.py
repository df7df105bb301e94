"""A process that ends with the one that started it, however that one ends."""

from __future__ import annotations

import os
import signal
import threading

ENDS_WITH = "OPENETA_EXP_ENDS_WITH"
"""Environment variable: number of an inherited descriptor that the starter holds the other end
of."""


def end_with_starter() -> None:
    """From now on, behave as if interrupted once the starter is gone; nothing if there is none."""
    descriptor = os.environ.pop(ENDS_WITH, "")
    if not descriptor.isdecimal():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that started somebody in the background has ignored it for everybody below.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def watch() -> None:
        os.read(int(descriptor), 1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, name="end-with-starter", daemon=True).start()
