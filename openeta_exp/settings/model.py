"""Which model plans (`provider=`) and how it is asked (`planner=`)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from openeta_exp.domain.model import ModelRole
from openeta_exp.domain.record import Record
from openeta_exp.settings.addresses import HttpAddress
from openeta_exp.wire.model_faults import parse_faults
from openeta_exp.wire.scripted_models import check_scripted_model

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("is the name of an environment variable, never the key itself")
    return name


VariableName = Annotated[str, AfterValidator(_check_variable)]


def _check_faults(line: str) -> str:
    parse_faults(line)
    return line


ScriptedModel = Annotated[str, AfterValidator(check_scripted_model)]


class _Attempts(Record):
    """How patiently an endpoint is asked."""

    timeout_s: float = Field(default=60.0, gt=0)
    """How long one attempt may take."""
    max_attempts: int = Field(default=3, ge=1, le=20)
    """Requests per answer at most, fallback included."""
    backoff_s: float = Field(default=0.5, ge=0)
    """First pause between attempts; it doubles, with jitter."""
    role_models: dict[ModelRole, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """Models for single roles at the same endpoint, such as `{action_reviewer: other-model}`."""


class EmbeddedProviderSettings(_Attempts):
    """The deterministic models this package serves itself on loopback."""

    kind: Literal["embedded"] = "embedded"
    model: ScriptedModel = "scripted-planner"
    role_models: dict[ModelRole, ScriptedModel] = Field(default_factory=dict)
    """Models for single roles, such as `{action_reviewer: scripted-careless}`."""
    latency_s: float = Field(default=0.0, ge=0, le=3600)
    """How long after its request every answer leaves."""
    faults: Annotated[str, AfterValidator(_check_faults)] = ""
    """Failures on request, such as `rate_limit@1-3,retry_after=2`; empty for none."""


class EndpointSettings(Record):
    """One OpenAI-compatible endpoint."""

    base_url: HttpAddress
    model: str = Field(min_length=1)
    api_key_env: VariableName = "OPENETA_LLM_API_KEY"
    """Environment variable that holds the key; unset means the endpoint wants none."""


class OpenAiProviderSettings(EndpointSettings, _Attempts):
    """A real endpoint, with one to fall back to."""

    kind: Literal["openai"] = "openai"
    fallback: EndpointSettings | None = None


ProviderSettings = Annotated[
    EmbeddedProviderSettings | OpenAiProviderSettings, Field(discriminator="kind")
]


class ModelPlannerSettings(Record):
    """A language model that decides turn by turn."""

    kind: Literal["model"] = "model"
    max_output_tokens: int = Field(default=1024, ge=1)
    validation_retries: int = Field(default=2, ge=0, le=10)
    """How often an invalid answer is sent back with its errors."""
    max_history_turns: int = Field(default=12, ge=0)
    max_history_characters: int = Field(default=80_000, ge=0)
    max_skills: int = Field(default=3, ge=0)
    """Skills put into the context; the others can be read on demand."""


PlannerSettings = Annotated[ModelPlannerSettings, Field()]
