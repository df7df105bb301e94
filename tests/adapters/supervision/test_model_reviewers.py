"""Reviewers fail closed, guidance fails silent, and each call starts from a clean context."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.adapters.supervision.model_action_reviewer import ModelActionReviewer
from openeta_exp.adapters.supervision.model_guidance import ModelGuidance
from openeta_exp.adapters.supervision.model_skill_author import ModelSkillAuthor, ModelSkillReviewer
from openeta_exp.domain.guidance import Question
from openeta_exp.domain.model import ModelRole, TokenUsage, UsageSource
from openeta_exp.domain.skill_change import SkillChange, SkillRequest
from openeta_exp.domain.supervision import ActionContext, ActionDecision
from openeta_exp.engine.interaction import BoundedGuidance
from openeta_exp.engine.subagent_eval_actions import action_cases
from openeta_exp.engine.subagent_eval_questions import question_cases
from openeta_exp.engine.subagent_eval_skills import author_cases, reviewer_cases
from openeta_exp.errors import ProviderError, ProviderQueueTimeout, ProviderReplyError
from openeta_exp.wire.supervision import SupervisionError, parse_action
from tests.speaking import TOKENS, SpeakingProvider
from tests.worlds import view

pytestmark = pytest.mark.anyio

SPENT = TokenUsage(
    prompt_tokens=300, completion_tokens=12, total_tokens=312, sources={UsageSource.PROVIDER: 1}
)
ANSWER = '{"decision": "answer", "answer": "the left one"}'


def proposed() -> ActionContext:
    asked = next(action_cases()).asked
    assert isinstance(asked, ActionContext)
    return replace(asked, observation=view())


def question(text: str = "Which?", *, asked: tuple[str, ...] = (), answered: int = 0) -> Question:
    case = next(question_cases()).asked
    assert isinstance(case, Question)
    return replace(case, text=text, asked=asked, answered=answered)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "approve",
        "yes",
        '{"decision": "APPROVE"}',
        '{"decision": true}',
        '{"decision": ["approve"]}',
        '{"approve": true}',
        '{"decision": "reject"} {"decision": "approve"}',
        '{"decision": "reject", "decision": "approve"}',
        '{"decision": "approved"}',
        '{"decision": NaN}',
        '{"decision": "approve"',
        "[" * 10_000,
    ],
)
async def test_an_answer_that_is_no_plain_approval_denies(text: str) -> None:
    given = await ModelActionReviewer(SpeakingProvider(text)).authorize(proposed())

    assert not given.allowed
    assert given.usage.total_tokens == TOKENS


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("down", charged=SPENT.charged()),
        ProviderReplyError("cut by length", charged=SPENT.charged()),
    ],
)
async def test_a_reviewer_that_cannot_be_asked_denies_and_is_still_paid(
    error: ProviderError,
) -> None:
    given = await ModelActionReviewer(SpeakingProvider(error)).authorize(proposed())

    assert not given.allowed
    assert given.usage == SPENT
    assert given.requests == 1


async def test_thoughts_that_weigh_a_rejection_do_not_hide_the_approval() -> None:
    text = '<think>{"decision": "reject"}? No.</think>\n{"decision": "approve"}'

    assert (await ModelActionReviewer(SpeakingProvider(text)).authorize(proposed())).allowed


async def test_a_request_that_never_got_a_slot_is_no_denial() -> None:
    busy = SpeakingProvider(ProviderQueueTimeout("no slot"))

    with pytest.raises(ProviderQueueTimeout):
        await ModelActionReviewer(busy).authorize(proposed())
    with pytest.raises(ProviderQueueTimeout):
        await ModelGuidance(busy).resolve(question())


async def test_every_review_starts_from_nothing_but_this_call_and_the_current_view() -> None:
    provider = SpeakingProvider('{"decision": "approve"}')
    reviewer = ModelActionReviewer(provider)

    for _ in range(3):
        await reviewer.authorize(proposed())

    for request in provider.requests:
        system, user = request.messages
        told = json.loads(user.text)
        assert request.role is ModelRole.ACTION_REVIEWER
        assert request.max_output_tokens == 512
        assert (system.role, user.role) == ("system", "user")
        assert told["evidence"]["selection"]["frame_rgb_sha256"]
        assert told["evidence"]["active_grasp_candidate"]["compiled"]["frame"] == "world"
        assert told["observation"]["objects"] == []
        assert [image.png for image in user.images] == [b"png 0"]
    assert len({request.messages for request in provider.requests}) == 1


@given(st.text(max_size=60), st.text(max_size=60))
def test_only_the_word_itself_is_an_approval(before: str, word: str) -> None:
    text = before + json.dumps({"decision": word})
    try:
        decision, _ = parse_action(text)
    except SupervisionError:
        return

    assert (decision is ActionDecision.APPROVE) == (word == "approve")


async def test_guidance_is_not_asked_a_fourth_time() -> None:
    provider = SpeakingProvider(ANSWER)
    bounded = BoundedGuidance(ModelGuidance(provider))

    given = [(await bounded.resolve(question(answered=n))).answer for n in range(4)]

    assert given == ["the left one"] * 3 + [None]
    assert len(provider.requests) == 3


@pytest.mark.parametrize("again", ["Which?", "  which ", "WHICH??", "which\n"])
async def test_a_question_that_was_asked_before_needs_a_person(again: str) -> None:
    provider = SpeakingProvider(ANSWER)

    resolution = await BoundedGuidance(ModelGuidance(provider)).resolve(
        question(again, asked=("Which?",))
    )

    assert resolution.answer is None
    assert resolution.reason == "the question was asked before"
    assert provider.requests == []


@pytest.mark.parametrize(
    "text",
    [
        '{"decision": "answer", "answer": "   "}',
        '{"decision": "answer"}',
        '{"decision": "answer", "answer": 5}',
        '{"decision": "abstain", "answer": "the left one"}',
        '{"answer": "the left one"}',
        "the left one",
    ],
)
async def test_an_empty_or_malformed_answer_is_none(text: str) -> None:
    resolution = await ModelGuidance(SpeakingProvider(text)).resolve(question())

    assert resolution.answer is None
    assert resolution.usage.total_tokens == TOKENS


async def test_author_and_reviewer_of_a_skill_keep_to_their_token_budgets() -> None:
    provider = SpeakingProvider('{"decision": "approve"}')
    request, change = next(author_cases()).asked, next(reviewer_cases()).asked
    assert isinstance(request, SkillRequest)
    assert isinstance(change, SkillChange)

    draft = await ModelSkillAuthor(provider).write(request)
    review = await ModelSkillReviewer(provider, name="reviewer").judge(change)

    assert draft.skill is None
    assert review.approves
    assert [(each.role, each.max_output_tokens) for each in provider.requests] == [
        (ModelRole.SKILL_AUTHOR, 4096),
        (ModelRole.SKILL_REVIEWER, 512),
    ]


async def test_a_skill_reviewer_that_breaks_has_rejected() -> None:
    change = next(reviewer_cases()).asked
    assert isinstance(change, SkillChange)

    review = await ModelSkillReviewer(SpeakingProvider(ProviderError("x")), name="r").judge(change)

    assert review.failed
    assert not review.approves
