"""Profile x tool effect x reviewer's answer x guidance's answer: what runs and what is counted."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from openeta_exp.adapters.supervision.folder_inbox import FolderApprovalInbox
from openeta_exp.adapters.supervision.human_gate import HumanGate, People
from openeta_exp.adapters.supervision.model_action_reviewer import ModelActionReviewer
from openeta_exp.adapters.supervision.model_guidance import ModelGuidance
from openeta_exp.domain.approval import ApprovalRequest
from openeta_exp.domain.decision import AskHuman, Finish
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.stop import StopReason
from openeta_exp.domain.supervision import ApprovementProfile
from openeta_exp.domain.tool import ToolCall, ToolEffect
from openeta_exp.engine.episode import run_episode
from openeta_exp.engine.interaction import BoundedGuidance, NobodyAnswers
from openeta_exp.engine.supervision import RuntimeChecksGate
from openeta_exp.errors import ProviderError
from openeta_exp.ports.guidance import Guidance
from openeta_exp.ports.supervision import ActionGate
from tests.manual_clock import SkippingClock
from tests.speaking import SpeakingProvider
from tests.worlds import MOVE, OBSERVE, Logs, Saying, Scenes, calls, prepared, world

pytestmark = pytest.mark.anyio

CALLS = {
    ToolEffect.READ_ONLY: OBSERVE,
    ToolEffect.BOOKKEEPING: ToolCall(
        name="save_memory", arguments={"namespace": "facts", "key": "k", "value": 1}
    ),
    ToolEffect.WORLD_MUTATING: MOVE,
}
REVIEWS: dict[str, str | Exception] = {
    "approve": '{"decision": "approve", "reason": "fits"}',
    "reject": '{"decision": "reject", "reason": "no"}',
    "abstain": '{"decision": "abstain", "reason": "cannot tell"}',
    "invalid": "certainly!",
    "outage": ProviderError("down"),
    "silence": ProviderError("nobody answered"),
}
ANSWERS: dict[str, str | Exception] = {
    "answer": '{"decision": "answer", "answer": "the left one"}',
    "abstain": '{"decision": "abstain", "reason": "cannot tell"}',
    "invalid": "the left one",
    "outage": ProviderError("down"),
}


def gate(profile: ApprovementProfile, review: str, inbox: Path) -> ActionGate:
    match profile:
        case ApprovementProfile.STANDARD:
            return RuntimeChecksGate()
        case ApprovementProfile.REVIEWED_AUTONOMY:
            return ModelActionReviewer(SpeakingProvider(REVIEWS[review]))
        case ApprovementProfile.HUMAN_GATED:

            async def prompt(request: ApprovalRequest) -> tuple[bool, str]:
                return review == "approve", review

            silent = review in ("silence", "outage")
            return HumanGate(
                People(
                    inbox=FolderApprovalInbox(inbox),
                    clock=SkippingClock(),
                    timeout_s=3.0,
                    prompt=None if silent else prompt,
                )
            )


def guidance(profile: ApprovementProfile, answer: str) -> Guidance:
    if profile is not ApprovementProfile.REVIEWED_AUTONOMY:
        return NobodyAnswers()
    return BoundedGuidance(ModelGuidance(SpeakingProvider(ANSWERS[answer])))


@pytest.mark.parametrize(
    ("profile", "effect", "review", "answer"),
    list(itertools.product(ApprovementProfile, CALLS, REVIEWS, ANSWERS)),
)
async def test_what_runs_what_is_recorded_and_what_is_counted(
    profile: ApprovementProfile, effect: ToolEffect, review: str, answer: str, tmp_path: Path
) -> None:
    scenes, logs = Scenes(prepared(solved_by=0)), Logs()
    planner = Saying(calls(CALLS[effect]), AskHuman(question="Which?"), Finish())

    outcome = await run_episode(
        EpisodeSpec(episode_id=EpisodeId("one"), env_id="memory", task="touch the target"),
        world=world(
            planner,
            scenes=scenes,
            logs=logs,
            gate=gate(profile, review, tmp_path),
            guidance=guidance(profile, answer),
        ),
    )

    assert isinstance(outcome, EpisodeResult)
    gated = effect is ToolEffect.WORLD_MUTATING and profile is not ApprovementProfile.STANDARD
    runs = not gated or review == "approve"
    silent = gated and profile is ApprovementProfile.HUMAN_GATED and review in ("silence", "outage")
    (result, *_), authorizations = logs.traces[0].results, logs.traces[0].authorizations
    assert result.success is runs
    assert scenes.opened[0].acted == (runs and effect is ToolEffect.WORLD_MUTATING)
    assert len(authorizations) == (effect is ToolEffect.WORLD_MUTATING)
    assert [each.allowed for each in authorizations] == [runs] * len(authorizations)
    assert outcome.usage.denied_calls == (not runs)
    if not runs:
        assert result.diagnostics[0].code == "supervision_denied"
    helped = profile is ApprovementProfile.REVIEWED_AUTONOMY and answer == "answer" and not silent
    assert outcome.assistance.guidance_interventions == helped
    by_person = gated and profile is ApprovementProfile.HUMAN_GATED and not silent
    assert outcome.assistance.human_interventions == by_person
    assert outcome.stop_reason is (
        StopReason.TASK_COMPLETE if helped else StopReason.NEED_HUMAN_UNATTENDED
    )
    if helped:
        remembered = logs.memory().latest_guidance_interaction
        assert remembered is not None
        assert remembered.source == "guidance_agent"
        assert logs.memory().latest_human_interaction is None
