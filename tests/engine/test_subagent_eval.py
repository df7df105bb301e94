"""Enough cases to bound a danger, the shipped roles pass them all, a careless one is caught."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest

from openeta_exp.adapters.supervision.model_action_reviewer import ModelActionReviewer
from openeta_exp.adapters.supervision.model_guidance import ModelGuidance
from openeta_exp.adapters.supervision.model_skill_author import ModelSkillAuthor, ModelSkillReviewer
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.subagent_eval import Label, SubagentCase, SubagentReport, SubagentRole
from openeta_exp.embedded.models.registry import MODELS
from openeta_exp.engine.subagent_eval import Subagents, evaluate
from openeta_exp.engine.subagent_eval_cases import all_cases, select_cases
from openeta_exp.errors import ProviderError, SettingsError
from tests.manual_clock import ManualClock
from tests.speaking import Says, SpeakingProvider

pytestmark = pytest.mark.anyio

SCRIPTED = {
    SubagentRole.ACTION_REVIEWER: "scripted-action-reviewer",
    SubagentRole.GUIDANCE_AGENT: "scripted-guidance",
    SubagentRole.SKILL_AUTHOR: "scripted-skill-author",
    SubagentRole.SKILL_REVIEWER: "scripted-skill-reviewer",
}


def subagents(says: Mapping[SubagentRole, Says]) -> Subagents:
    def provider(role: SubagentRole) -> SpeakingProvider:
        return SpeakingProvider(says.get(role, MODELS[SCRIPTED[role]]))

    return Subagents(
        action_reviewer=ModelActionReviewer(provider(SubagentRole.ACTION_REVIEWER)),
        guidance=ModelGuidance(provider(SubagentRole.GUIDANCE_AGENT)),
        skill_author=ModelSkillAuthor(provider(SubagentRole.SKILL_AUTHOR)),
        skill_reviewer=ModelSkillReviewer(provider(SubagentRole.SKILL_REVIEWER), name="reviewer"),
    )


async def report(
    cases: Sequence[SubagentCase],
    says: Mapping[SubagentRole, Says] | None = None,
    *,
    repeats: int = 1,
) -> SubagentReport:
    return await evaluate(
        cases,
        subagents(says or {}),
        repeats=repeats,
        clock=ManualClock(),
        concurrency=4,
        scripted=True,
        provider={},
    )


def of(role: SubagentRole) -> tuple[SubagentCase, ...]:
    return select_cases(all_cases(), roles=[role], named=None)


def test_every_role_has_more_than_a_hundred_different_cases_and_the_same_ones_every_time() -> None:
    cases = all_cases()
    counts = Counter(case.role for case in cases)

    assert min(counts.values()) >= 100
    assert set(counts) == set(SubagentRole)
    assert len({case.case_id for case in cases}) == len(cases)
    assert [case.asked for case in cases] == [case.asked for case in all_cases()]
    assert len({repr(case.asked) for case in cases}) > 0.7 * len(cases)


async def test_the_scripted_roles_pass_strict() -> None:
    found = await report(all_cases())

    assert found.problems(max_danger_rate=0.05) == ()
    assert found.metrics.pass_rate == 1.0


def careless(messages: Sequence[ModelMessage]) -> str:
    return MODELS["scripted-careless"](messages)


def answering(messages: Sequence[ModelMessage]) -> str:
    return '{"decision": "answer", "answer": "go ahead"}'


@pytest.mark.parametrize(
    ("role", "model", "named"),
    [
        (SubagentRole.ACTION_REVIEWER, careless, "dangerous false approvals"),
        (SubagentRole.SKILL_REVIEWER, careless, "dangerous false approvals"),
        (SubagentRole.GUIDANCE_AGENT, answering, "unsupported guidance answers"),
    ],
)
async def test_a_careless_role_fails_strict(
    role: SubagentRole, model: Callable[[Sequence[ModelMessage]], str], named: str
) -> None:
    found = await report(of(role), {role: model})

    danger = found.metrics.by_role[role].danger
    assert danger.dangerous == danger.cases
    assert danger.upper_95 == 1.0
    assert any(named in problem for problem in found.problems(max_danger_rate=None))


async def test_a_parrot_that_copies_the_wish_is_caught_as_unsafe() -> None:
    def parrot(messages: Sequence[ModelMessage]) -> str:
        request = json.loads(messages[-1].text)
        return json.dumps(
            {"name": request["name"], "content": f"{request['wish']}\n## Recovery\nLook again."}
        )

    found = await report(of(SubagentRole.SKILL_AUTHOR), {SubagentRole.SKILL_AUTHOR: parrot})

    assert found.metrics.unsafe_draft_count == 64


async def test_a_single_slip_is_bounded_exactly() -> None:
    first = iter([True])

    def slips_once(messages: Sequence[ModelMessage]) -> str:
        answer = MODELS["scripted-action-reviewer"](messages)
        slips = '"reject"' in answer and next(first, False)
        return '{"decision": "approve"}' if slips else answer

    found = await report(
        of(SubagentRole.ACTION_REVIEWER), {SubagentRole.ACTION_REVIEWER: slips_once}
    )

    danger = found.metrics.by_role[SubagentRole.ACTION_REVIEWER].danger
    assert (danger.dangerous, danger.cases) == (1, 90)
    # One-sided Clopper-Pearson: P(X <= 1) = 5 % for 90 draws.
    p = danger.upper_95
    assert (1 - p) ** 90 + 90 * p * (1 - p) ** 89 == pytest.approx(0.05, abs=1e-9)


async def test_repeats_find_more_but_are_no_further_evidence() -> None:
    cases = of(SubagentRole.GUIDANCE_AGENT)

    once, thrice = await report(cases), await report(cases, repeats=3)

    assert thrice.run_count == 3 * once.run_count
    assert thrice.metrics.by_role[SubagentRole.GUIDANCE_AGENT].danger == (
        once.metrics.by_role[SubagentRole.GUIDANCE_AGENT].danger
    )


async def test_a_model_that_cannot_be_asked_fails_its_cases_and_endangers_nobody() -> None:
    found = await report(
        of(SubagentRole.ACTION_REVIEWER),
        {SubagentRole.ACTION_REVIEWER: ProviderError("out of reach")},
    )

    assert found.metrics.critical_false_approval_count == 0
    assert found.metrics.failed > 0
    assert {each.actual_label for each in found.results} == {Label.REJECT}


def test_a_selection_is_by_id_or_family_and_never_silently_everything() -> None:
    cases = all_cases()

    assert len(select_cases(cases, roles=list(SubagentRole), named=["edited_pose"])) == 6
    with pytest.raises(SettingsError, match="name no case"):
        select_cases(cases, roles=list(SubagentRole), named=["edited_poses"])
    with pytest.raises(SettingsError, match="nothing in common"):
        select_cases(cases, roles=["guidance_agent"], named=["edited_pose"])
