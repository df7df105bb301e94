"""One exchange with a language model, independent of who serves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import Field

from openeta_exp.domain.record import Record
from openeta_exp.errors import ChargedTokens, ProviderError


class ModelRole(StrEnum):
    """Who asks. Every role has a clean context of its own and shares one limiter."""

    PLANNER = "planner"
    ACTION_REVIEWER = "action_reviewer"
    GUIDANCE = "guidance_agent"
    SKILL_AUTHOR = "skill_author"
    SKILL_REVIEWER = "skill_reviewer"
    STRATEGY_AUTHOR = "strategy_author"
    STRATEGY_REVIEWER = "strategy_reviewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelImage:
    """A PNG attached to a message.

    Attributes:
        label: What the image shows, in the words of the message it goes with.
    """

    label: str
    png: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMessage:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[ModelImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A conversation to be continued by exactly one JSON object."""

    role: ModelRole
    messages: tuple[ModelMessage, ...]
    max_output_tokens: int


class UsageSource(StrEnum):
    """Where a token count comes from."""

    PROVIDER = "provider"
    """The endpoint's own total."""
    PROVIDER_DERIVED = "provider_derived"
    """Prompt plus completion, as the endpoint counted them."""
    ESTIMATED = "estimated"


class TokenUsage(Record):
    """Tokens of one or more requests."""

    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    total_tokens: int = Field(default=0, ge=0)
    sources: dict[UsageSource, int] = Field(default_factory=dict)
    """How many requests were counted by each source."""

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            sources={
                source: self.sources.get(source, 0) + other.sources.get(source, 0)
                for source in UsageSource
                if source in self.sources or source in other.sources
            },
        )

    @classmethod
    def charged_by(cls, error: ProviderError) -> TokenUsage:
        """Of the answers that were charged before a call failed."""
        return cls(
            prompt_tokens=error.charged.prompt_tokens,
            completion_tokens=error.charged.completion_tokens,
            total_tokens=error.charged.total_tokens,
            sources={UsageSource(name): count for name, count in error.charged.sources.items()},
        )

    def charged(self) -> ChargedTokens:
        """As an error carries it."""
        return ChargedTokens(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            total_tokens=self.total_tokens,
            sources={source.value: count for source, count in self.sources.items()},
        )


class Endpoint(StrEnum):
    """Which of the configured endpoints answered."""

    PRIMARY = "primary"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What came back, whole and not cut by length.

    Attributes:
        usage: Of every attempt that the endpoint charged for.
        model: The name the endpoint gives itself.
        attempts: Requests that were sent for this answer, from 1.
    """

    text: str
    usage: TokenUsage
    model: str
    endpoint: Endpoint
    attempts: int
    queue_wait_s: float
    latency_s: float


class ProviderMetrics(Record):
    """Some calls through the limiter that every role shares (`openeta.provider_concurrency.v1`).

    Those of one run of a batch, unless it says otherwise.
    """

    limit: int
    queue_timeout_s: float
    request_count: int = 0
    """Queue time-outs included."""
    queue_timeout_count: int = 0
    active: int = 0
    max_active: int = 0
    """The most of these calls that were under way at once."""
    total_queue_wait_s: float = 0.0
    max_queue_wait_s: float = 0.0
    """The longest any of these calls had to wait."""
    paused_count: int = 0
    """How often a rate limit that one of these calls met paused every role at once."""
    attempts: int = 0
    retries: int = 0
    fallback_count: int = 0
    usage_by_role: dict[ModelRole, TokenUsage] = Field(default_factory=dict)

    def __add__(self, later: ProviderMetrics) -> ProviderMetrics:
        """Both, of which `later` came after. Counts add up; maxima are the larger of the two."""
        return ProviderMetrics(
            limit=later.limit,
            queue_timeout_s=later.queue_timeout_s,
            request_count=self.request_count + later.request_count,
            queue_timeout_count=self.queue_timeout_count + later.queue_timeout_count,
            active=later.active,
            max_active=max(self.max_active, later.max_active),
            total_queue_wait_s=self.total_queue_wait_s + later.total_queue_wait_s,
            max_queue_wait_s=max(self.max_queue_wait_s, later.max_queue_wait_s),
            paused_count=self.paused_count + later.paused_count,
            attempts=self.attempts + later.attempts,
            retries=self.retries + later.retries,
            fallback_count=self.fallback_count + later.fallback_count,
            usage_by_role={
                role: self.usage_by_role.get(role, TokenUsage())
                + later.usage_by_role.get(role, TokenUsage())
                for role in ModelRole
                if role in self.usage_by_role or role in later.usage_by_role
            },
        )
