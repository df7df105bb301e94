"""The environment's own word, bound to the execution it belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from openeta_exp.domain.identity import ExecutionId
from openeta_exp.domain.record import Record


class EnvironmentReceipt(Record):
    """One answer of the environment about reward and end, stamped by the host.

    Only the simulator adapter makes receipts; no tool the agent can address writes one.
    """

    execution_id: ExecutionId
    handle: str
    """The environment's own name for this episode's world."""
    call_index: int
    """Position among the environment calls of this execution, from 0."""
    tool: str
    reward: float
    terminated: bool
    truncated: bool
    tells_end: bool = True
    """Whether the answer said if the episode goes on. Some servers send a picture and no more."""
    success_at_reset: bool = False
    """True if the checker was already satisfied before anything was done."""
    collision: bool = False
    """The simulator's collision check found the hand or the arm pressed into something."""


def checker_success(receipts: Iterable[EnvironmentReceipt], execution_id: ExecutionId) -> bool:
    """Did the checker confirm success during this very execution?

    Positive reward is the checker's word. Receipts of another execution are not evidence, and a
    task that was already solved at reset proves nothing about the agent.
    """
    own = [receipt for receipt in receipts if receipt.execution_id == execution_id]
    if any(receipt.success_at_reset for receipt in own):
        return False
    return any(receipt.reward > 0 for receipt in own)


def violations(
    receipts: Iterable[EnvironmentReceipt], execution_id: ExecutionId
) -> tuple[str, ...]:
    """Safety violations of this very execution, a code for each motion that had one.

    From the simulator's typed answers alone: no text that a model or a person wrote counts.
    """
    return tuple(
        "safety.collision"
        for receipt in receipts
        if receipt.collision and receipt.execution_id == execution_id
    )
