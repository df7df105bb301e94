"""Which grasp is tried now, and when the next one gets its turn. Host-owned: no tool writes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from openeta_exp.domain.identity import JsonObject
from openeta_exp.ports.perception import GraspCandidate, Vector3

MAX_ATTEMPTS = 3
"""Candidates tried before the queue is exhausted."""
HOVER_MISS_M = 0.04
"""A collision-free miss of the hover pose by less is no evidence against the candidate."""
SAME_POSE_M = 0.01
"""A motion is the contact (or hover) motion if its target is this close to the compiled pose."""


class QueueState(StrEnum):
    ACTIVE = "active"
    ACCEPTED = "accepted"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGrasp:
    """World poses of the active candidate, metres."""

    candidate_id: str
    hover_xyz_m: Vector3
    contact_xyz_m: Vector3
    roll_pitch_yaw_deg: Vector3
    extents_m: Vector3


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """A finished motion, as the simulator reported it."""

    target_xyz_m: Vector3
    end_xyz_m: Vector3
    reached: bool
    collided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateQueue:
    """Ranked candidates and the one being tried. Immutable; a change is a new queue."""

    candidates: tuple[GraspCandidate, ...]
    index: int = 0
    attempts: int = 1
    state: QueueState = QueueState.ACTIVE
    compiled: CompiledGrasp | None = None

    @property
    def active(self) -> GraspCandidate:
        return self.candidates[self.index]

    def activate(self, candidate_id: str) -> CandidateQueue:
        """Raises: KeyError: If there is no such candidate."""
        for index, candidate in enumerate(self.candidates):
            if candidate.candidate_id == candidate_id:
                return replace(self, index=index, state=QueueState.ACTIVE, compiled=None)
        raise KeyError(candidate_id)

    def after(self, motion: Motion) -> CandidateQueue:
        """The queue once a motion has ended.

        Only structured evidence moves it: a contact that was reached accepts the candidate, a
        pose that was not reached rejects it, and a near miss of the hover pose says nothing.
        """
        if self.state is not QueueState.ACTIVE or self.compiled is None:
            return self
        contact = _close(motion.target_xyz_m, self.compiled.contact_xyz_m)
        hover = _close(motion.target_xyz_m, self.compiled.hover_xyz_m)
        if not contact and not hover:
            return self
        if motion.reached:
            return replace(self, state=QueueState.ACCEPTED) if contact else self
        missed_m = max(
            abs(a - b) for a, b in zip(motion.target_xyz_m, motion.end_xyz_m, strict=True)
        )
        if hover and not motion.collided and missed_m <= HOVER_MISS_M:
            return self
        return self._advanced()

    def _advanced(self) -> CandidateQueue:
        following = self.index + 1
        if self.attempts >= MAX_ATTEMPTS or following >= len(self.candidates):
            return replace(self, state=QueueState.EXHAUSTED)
        return replace(self, index=following, attempts=self.attempts + 1, compiled=None)

    def to_json(self) -> JsonObject:
        """What the planner is told."""
        return {
            "id": self.active.candidate_id,
            "rank": self.active.rank,
            "attempts": self.attempts,
            "state": self.state.value,
        }


def _close(first: Vector3, second: Vector3) -> bool:
    return all(abs(a - b) <= SAME_POSE_M for a, b in zip(first, second, strict=True))
