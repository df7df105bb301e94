"""Approvement profiles: host-chosen, agent-immutable, part of every result."""

from __future__ import annotations

from enum import StrEnum


class ApprovementProfile(StrEnum):
    """How much an agent may do without a person. Never switches off a deterministic check."""

    HUMAN_GATED = "human_gated"
    """A person approves every world-mutating call and every skill change."""
    STANDARD = "standard"
    """Deterministic gates decide; a person answers questions."""
    REVIEWED_AUTONOMY = "reviewed_autonomy"
    """An independent reviewer decides on calls and skill changes; guidance answers questions."""


class OnNeedHuman(StrEnum):
    """What becomes of an episode that needs a person."""

    FAIL = "fail"
    """It ends with `need_human_in_unattended_run`."""
    PAUSE = "pause"
    """It is kept as a record and can be resumed with an answer."""
