"""Asks whoever sits at the terminal whether a call may be carried out."""

from __future__ import annotations

import os
import sys

import anyio

from openeta_exp.domain.approval import ApprovalRequest
from openeta_exp.domain.record import canonical_json
from openeta_exp.reporting.console import Console

_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})


class TerminalPrompt:
    """One question at a time, whichever episodes they come from."""

    def __init__(self, console: Console, *, descriptor: int | None = None) -> None:
        """
        Args:
            descriptor: Where lines are read from; standard input by default.
        """
        self._console = console
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._turn = anyio.Lock()
        self._read = b""

    async def __call__(self, request: ApprovalRequest) -> tuple[bool, str]:
        """The decision and its reason. Asks again until it is one; cancelled at no cost."""
        async with self._turn:
            self._console.note(question(request))
            while True:
                word, _, reason = (await self._line()).strip().partition(" ")
                if word.lower() in _YES | _NO:
                    return word.lower() in _YES, reason.strip()
                self._console.note("y or n, then a reason if you like:")

    async def _line(self) -> str:
        while b"\n" not in self._read:
            await anyio.wait_readable(self._descriptor)
            read = os.read(self._descriptor, 4096)
            if not read:
                # The terminal is gone: whoever looks into the inbox decides.
                await anyio.sleep_forever()
            self._read += read
        line, _, self._read = self._read.partition(b"\n")
        return line.decode("utf-8", "replace")


def question(request: ApprovalRequest) -> str:
    """What is to be decided, in a few lines."""
    content = canonical_json(request.content).decode("utf-8")
    kind = request.kind.value.replace("_", " ")
    return (
        f"{request.interaction_id}: {kind} {request.name} {content}\n"
        f"  task: {request.task}\n  reasoning: {request.reasoning or '-'}\n"
        "  carry it out? y/n, then a reason if you like:"
    )


def terminal_is_there() -> bool:
    """Whether somebody can be asked and can answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
