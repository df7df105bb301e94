"""Where in the skill a turn stood, written into its reasoning and read back from the history.

The model keeps no state between requests, like any other: what it needs to know it must have
said, and the conversation brings it back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARK = re.compile(r"^\[attempt (\d{1,3}), steps ([\d ,]*|none), next (\d{1,3})\]")


@dataclass(frozen=True, slots=True)
class Mark:
    """Bookkeeping of one turn.

    Attributes:
        attempt: From 1; a new one starts over at the first step.
        steps: Indexes of the steps this turn carried out, one per call; empty for turns in
            between, such as a selection.
        next: Index of the step that comes after, if all goes well.
    """

    attempt: int
    steps: tuple[int, ...]
    next: int

    def write(self, words: str) -> str:
        # Counted from 1, like the steps of a skill, for whoever reads the trace.
        done = ", ".join(str(at + 1) for at in self.steps) or "none"
        return f"[attempt {self.attempt}, steps {done}, next {self.next + 1}] {words}"


def read_mark(reasoning: str) -> Mark | None:
    match = _MARK.match(reasoning)
    if match is None or int(match[3]) < 1:
        return None
    steps = tuple(int(word) - 1 for word in re.findall(r"\d+", match[2]))
    return Mark(attempt=int(match[1]), steps=steps, next=int(match[3]) - 1)
