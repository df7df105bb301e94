"""Who may change the world. The gate stands before every world-mutating call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.supervision import ApprovementProfile
from openeta_exp.domain.tool import ToolCall, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """What a reviewer or a person gets to see of a proposed call."""

    task: str
    session_id: str
    tool: ToolSpec
    call: ToolCall
    observation: Observation
    host_state: JsonObject
    reasoning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """The answer of the gate.

    Attributes:
        by: `runtime`, `reviewer` or `human`.
        needs_human: A person did not answer in time; the episode must pause or end.
    """

    allowed: bool
    by: str
    reason: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    needs_human: bool = False


class ActionGate(Protocol):
    """Decides on world-mutating calls under one approvement profile. Shared by all episodes."""

    @property
    def profile(self) -> ApprovementProfile: ...

    async def authorize(self, context: ActionContext) -> Authorization:
        """May this call run? Never raises for a reviewer that fails: that is a denial.

        Raises:
            ProviderQueueTimeout: The reviewer's request could not even be queued.
        """
        ...


class RuntimeChecksGate:
    """Profile `standard`: the deterministic checks of runtime and simulator decide alone."""

    profile = ApprovementProfile.STANDARD

    async def authorize(self, context: ActionContext) -> Authorization:
        del context
        return Authorization(allowed=True, by="runtime")
