"""What an episode has spent and shown so far, whole at any moment."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypedDict

import anyio

from openeta_exp.domain.budget import Spent
from openeta_exp.domain.episode import Assistance, Cleanup, CleanupStatus, EpisodeUsage
from openeta_exp.domain.evidence import checker_success, violations
from openeta_exp.domain.identity import Digest, EpisodeId, ExecutionId, JsonObject, SessionId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.memory import SessionMemory
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.observation import Observation
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.planner import PlannerTurn


class EndedFacts(TypedDict):
    """The fields every outcome carries."""

    episode_id: EpisodeId
    spec_digest: Digest
    arm_digest: Digest
    repeat: int
    session_id: SessionId
    execution_id: ExecutionId
    usage: EpisodeUsage
    assistance: Assistance
    cleanup: Cleanup
    initial_state_digest: str | None
    initial_frame_sha256: dict[str, str]
    environment: JsonObject
    started_at_s: float
    violations: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class EpisodeRecord:
    """The mutable account of one episode, owned by its loop."""

    spec: EpisodeSpec
    arm_digest: Digest
    execution_id: ExecutionId
    session_id: SessionId
    started_at_s: float
    started_s: float
    cleanup: Cleanup = field(default_factory=lambda: Cleanup(status=CleanupStatus.NOT_OPENED))
    host: EpisodeHost | None = None
    turns: int = 0
    tool_calls: int = 0
    tokens: TokenUsage = field(default_factory=TokenUsage)
    model_requests: int = 0
    validation_retries: int = 0
    denied_calls: int = 0
    guidance_interventions: int = 0
    human_interventions: int = 0
    context_characters_max: int = 0
    human_wait_s: float = 0.0
    asked: tuple[str, ...] = ()
    """Every question of the episode, over all its restarts."""
    memory: SessionMemory = field(default_factory=SessionMemory)
    """What the session begins with."""
    denied_before: int = 0
    """Denials before this restart; only those since then can end it."""
    lost_at: int | None = None
    """How many receipts there were when the reply to a motion was last lost."""
    deadline: anyio.CancelScope | None = None
    """Ends the episode when its time is up."""

    def begin(self, observation: Observation) -> EpisodeHost:
        """Take the observation after reset as the episode's first."""
        self.host = EpisodeHost(
            observation=observation, initial_observation=observation, memory=self.memory
        )
        return self.host

    def is_solved(self) -> bool:
        """Whether the checker has confirmed success, whatever came after."""
        if self.host is None or self.host.initial_observation.success_at_reset:
            return False
        return checker_success(self.host.receipts, self.execution_id)

    def verdict_is_lost(self) -> bool:
        """Whether the reward may have been in a reply that never came.

        Simulators reward once: only a later answer can show that the episode went on.
        """
        if self.host is None or self.lost_at is None or self.host.reward > 0:
            return False
        since = self.host.receipts[self.lost_at :]
        return not any(receipt.tells_end and not receipt.terminated for receipt in since)

    def stand(self) -> None:
        """The loop has ended: from now on the clock can no longer change how."""
        if self.deadline is not None:
            self.deadline.deadline = math.inf

    @contextlib.contextmanager
    def waiting_for_a_person(self, clock: Clock) -> Iterator[None]:
        """Time inside counts as human wait and not against the episode's clock."""
        begun_s = clock.monotonic_s()
        due = None if self.deadline is None else self.deadline.deadline
        if self.deadline is not None:
            self.deadline.deadline = math.inf
        try:
            yield
        finally:
            waited_s = clock.monotonic_s() - begun_s
            self.human_wait_s += waited_s
            if self.deadline is not None and due is not None:
                self.deadline.deadline = due + waited_s

    def decided(self, turn: PlannerTurn) -> None:
        """Count what a decision cost, valid or not."""
        self.tokens += turn.usage
        self.model_requests += turn.requests
        self.validation_retries += max(0, turn.requests - 1)
        self.context_characters_max = max(self.context_characters_max, turn.context_characters)

    def spent(self, *, now_s: float) -> Spent:
        return Spent(
            turns=self.turns,
            tool_calls=self.tool_calls,
            tokens=self.tokens.total_tokens,
            elapsed_s=now_s - self.started_s - self.human_wait_s,
        )

    def facts(self, *, now_s: float) -> EndedFacts:
        """Everything an outcome says besides its verdict."""
        first = None if self.host is None else self.host.initial_observation
        receipts = () if self.host is None else self.host.receipts
        return EndedFacts(
            episode_id=self.spec.episode_id,
            spec_digest=self.spec.content_digest,
            arm_digest=self.arm_digest,
            repeat=self.spec.repeat,
            session_id=self.session_id,
            execution_id=self.execution_id,
            usage=EpisodeUsage(
                turns=self.turns,
                tool_calls=self.tool_calls,
                tokens=self.tokens,
                model_requests=self.model_requests,
                validation_retries=self.validation_retries,
                denied_calls=self.denied_calls,
                duration_s=max(0.0, now_s - self.started_s),
                human_wait_s=self.human_wait_s,
                context_characters_max=self.context_characters_max,
            ),
            assistance=Assistance(
                guidance_interventions=self.guidance_interventions,
                human_interventions=self.human_interventions,
            ),
            cleanup=self.cleanup,
            initial_state_digest=None if first is None else first.state_digest,
            initial_frame_sha256={}
            if first is None
            else {camera.frame_id: camera.rgb_sha256 for camera in first.cameras},
            environment={} if first is None else first.facts,
            started_at_s=self.started_at_s,
            violations=violations(receipts, self.execution_id),
        )
