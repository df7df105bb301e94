"""A guidance agent that is a language model with a clean context."""

from __future__ import annotations

from importlib.resources import files

from openeta_exp.domain.guidance import Question, Resolution
from openeta_exp.domain.model import ModelImage, ModelMessage, ModelRequest, ModelRole, TokenUsage
from openeta_exp.domain.observation import ordered_cameras
from openeta_exp.errors import ProviderError, ProviderQueueTimeout
from openeta_exp.ports.provider import Provider
from openeta_exp.wire.supervision import SupervisionError, parse_guidance, render_question

PROMPT = (
    files("openeta_exp.adapters.supervision")
    .joinpath("guidance_prompt.md")
    .read_text(encoding="utf-8")
)
MAX_OUTPUT_TOKENS = 512


class ModelGuidance:
    """See `ports.guidance.Guidance`. An agent that fails has abstained."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def resolve(self, question: Question) -> Resolution:
        try:
            reply = await self._provider.complete(_request(question))
        except ProviderQueueTimeout:
            raise
        except ProviderError as error:
            return _failed(str(error), TokenUsage.charged_by(error))
        try:
            answer, reason = parse_guidance(reply.text)
        except SupervisionError as error:
            return _failed(str(error), reply.usage)
        return Resolution(answer=answer, reason=reason, usage=reply.usage, requests=1)


def _request(question: Question) -> ModelRequest:
    images = tuple(
        ModelImage(label=f"current view of camera {frame.frame_id}", png=frame.rgb_png)
        for frame in ordered_cameras(question.observation)[:1]
    )
    return ModelRequest(
        role=ModelRole.GUIDANCE,
        messages=(
            ModelMessage(role="system", text=PROMPT),
            ModelMessage(role="user", text=render_question(question), images=images),
        ),
        max_output_tokens=MAX_OUTPUT_TOKENS,
    )


def _failed(reason: str, usage: TokenUsage) -> Resolution:
    return Resolution(
        answer=None, reason=f"guidance_resolution_failed: {reason}", usage=usage, requests=1
    )
