"""An action reviewer that is a language model: a clean context each time, and it fails closed."""

from __future__ import annotations

from importlib.resources import files

from openeta_exp.domain.model import ModelImage, ModelMessage, ModelRequest, ModelRole, TokenUsage
from openeta_exp.domain.observation import ordered_cameras
from openeta_exp.domain.supervision import (
    ActionContext,
    ActionDecision,
    ApprovementProfile,
    Authorization,
)
from openeta_exp.errors import ProviderError, ProviderQueueTimeout, ProviderReplyError
from openeta_exp.ports.provider import Provider
from openeta_exp.wire.supervision import SupervisionError, parse_action, render_action

PROMPT = (
    files("openeta_exp.adapters.supervision")
    .joinpath("action_reviewer_prompt.md")
    .read_text(encoding="utf-8")
)
MAX_OUTPUT_TOKENS = 512


class ModelActionReviewer:
    """See `ports.supervision.ActionGate`: profile `reviewed_autonomy`.

    Only `approve` lets a call run. A rejection, an abstention, an answer that cannot be read and
    an endpoint that does not answer are all denials, and nothing overrides them.
    """

    profile = ApprovementProfile.REVIEWED_AUTONOMY

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def authorize(self, context: ActionContext) -> Authorization:
        try:
            reply = await self._provider.complete(_request(context))
        except ProviderQueueTimeout:
            raise
        except ProviderReplyError as error:
            return _denied(
                f"the reviewer's answer cannot be used: {error}",
                TokenUsage.charged_by(error),
            )
        except ProviderError as error:
            return _denied(
                f"the reviewer could not be asked: {error}",
                TokenUsage.charged_by(error),
            )
        try:
            decision, reason = parse_action(reply.text)
        except SupervisionError as error:
            return _denied(f"the reviewer's answer cannot be used: {error}", reply.usage)
        return Authorization(
            allowed=decision is ActionDecision.APPROVE,
            by="reviewer",
            reason=f"{decision}: {reason}",
            usage=reply.usage,
            requests=1,
        )


def _request(context: ActionContext) -> ModelRequest:
    images = tuple(
        ModelImage(label=f"current view of camera {frame.frame_id}", png=frame.rgb_png)
        for frame in ordered_cameras(context.observation)[:1]
    )
    return ModelRequest(
        role=ModelRole.ACTION_REVIEWER,
        messages=(
            ModelMessage(role="system", text=PROMPT),
            ModelMessage(role="user", text=render_action(context), images=images),
        ),
        max_output_tokens=MAX_OUTPUT_TOKENS,
    )


def _denied(reason: str, usage: TokenUsage) -> Authorization:
    return Authorization(allowed=False, by="reviewer", reason=reason, usage=usage, requests=1)
