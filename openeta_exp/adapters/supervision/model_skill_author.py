"""A session's skill author and its reviewer: two models that never see each other's context."""

from __future__ import annotations

from importlib.resources import files

from openeta_exp.domain.candidate import Review, ReviewDecision
from openeta_exp.domain.model import ModelMessage, ModelRequest, ModelRole, TokenUsage
from openeta_exp.domain.skill_change import SkillChange, SkillDraft, SkillRequest
from openeta_exp.errors import ProviderError, ProviderQueueTimeout
from openeta_exp.ports.provider import Provider
from openeta_exp.wire.authoring import AuthoringError, parse_review
from openeta_exp.wire.skill_change import parse_draft, render_change, render_request

_HERE = files("openeta_exp.adapters.supervision")
AUTHOR_PROMPT = _HERE.joinpath("skill_author_prompt.md").read_text(encoding="utf-8")
REVIEWER_PROMPT = _HERE.joinpath("skill_reviewer_prompt.md").read_text(encoding="utf-8")
MAX_AUTHOR_TOKENS = 4096
MAX_REVIEWER_TOKENS = 512


class ModelSkillAuthor:
    """See `ports.skill_author.SkillAuthor`."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def write(self, request: SkillRequest) -> SkillDraft:
        try:
            reply = await self._provider.complete(
                _ask(
                    ModelRole.SKILL_AUTHOR,
                    AUTHOR_PROMPT,
                    render_request(request),
                    max_output_tokens=MAX_AUTHOR_TOKENS,
                )
            )
        except ProviderQueueTimeout:
            raise
        except ProviderError as error:
            return SkillDraft(
                skill=None,
                reason=f"the author could not write: {error}",
                usage=TokenUsage.charged_by(error),
                requests=1,
            )
        try:
            skill = parse_draft(reply.text, request)
        except AuthoringError as error:
            return SkillDraft(skill=None, reason=str(error), usage=reply.usage, requests=1)
        return SkillDraft(skill=skill, reason="written", usage=reply.usage, requests=1)


class ModelSkillReviewer:
    """See `ports.skill_author.SkillJudge`. It fails closed."""

    is_a_person = False

    def __init__(self, provider: Provider, *, name: str) -> None:
        self._provider = provider
        self._name = name

    async def judge(self, change: SkillChange) -> Review:
        try:
            reply = await self._provider.complete(
                _ask(
                    ModelRole.SKILL_REVIEWER,
                    REVIEWER_PROMPT,
                    render_change(change),
                    max_output_tokens=MAX_REVIEWER_TOKENS,
                )
            )
        except ProviderQueueTimeout:
            raise
        except ProviderError as error:
            return self._failed(
                f"the reviewer could not be asked: {error}", TokenUsage.charged_by(error)
            )
        try:
            decision, reason = parse_review(reply.text)
        except AuthoringError as error:
            return self._failed(f"the reviewer's answer cannot be used: {error}", reply.usage)
        return Review(decision=decision, reason=reason, reviewer=self._name, usage=reply.usage)

    def _failed(self, reason: str, usage: TokenUsage) -> Review:
        return Review(
            decision=ReviewDecision.REJECT,
            reason=reason,
            reviewer=self._name,
            failed=True,
            usage=usage,
        )


def _ask(role: ModelRole, prompt: str, text: str, *, max_output_tokens: int) -> ModelRequest:
    return ModelRequest(
        role=role,
        messages=(
            ModelMessage(role="system", text=prompt),
            ModelMessage(role="user", text=text),
        ),
        max_output_tokens=max_output_tokens,
    )
