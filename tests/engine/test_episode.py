"""One episode: what counts, what ends it, what it costs, and who is to blame."""

from __future__ import annotations

import anyio
import pytest

from openeta_exp.adapters.planner.model_planner import ModelPlanner
from openeta_exp.domain.budget import Budget
from openeta_exp.domain.decision import AskHuman, Finish, Talk
from openeta_exp.domain.episode import CleanupStatus, EpisodeFailure, EpisodeResult
from openeta_exp.domain.guidance import Question, Resolution
from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ModelReply, ModelRequest, TokenUsage, UsageSource
from openeta_exp.domain.stop import FailureClass, StopReason
from openeta_exp.domain.supervision import (
    ActionContext,
    ApprovementProfile,
    Authorization,
    OnNeedHuman,
)
from openeta_exp.engine.episode import run_episode
from openeta_exp.engine.turn import MAX_DENIALS
from openeta_exp.errors import (
    ProviderError,
    ProviderQueueTimeout,
    ProviderReplyError,
    StoreError,
)
from openeta_exp.wire.outcome_row import outcome_row
from tests.speaking import TOKENS, SpeakingProvider
from tests.worlds import (
    MOVE,
    OBSERVE,
    OPEN,
    Logs,
    Saying,
    Scene,
    Scenes,
    broken,
    calls,
    prepared,
    world,
)

pytestmark = pytest.mark.anyio


def spec(**budget: float) -> EpisodeSpec:
    return EpisodeSpec(
        episode_id=EpisodeId("one"),
        env_id="memory",
        task="touch the target",
        budget=Budget.model_validate(budget),
    )


async def test_each_motion_that_ended_in_a_collision_is_a_safety_violation() -> None:
    def prepare(scene: Scene, _spec: EpisodeSpec) -> None:
        scene.solved_by, scene.collides_at = 3, frozenset({1, 3})

    outcome = await run_episode(
        spec(),
        world=world(Saying(calls(MOVE), calls(MOVE), calls(MOVE)), scenes=Scenes(prepare)),
    )

    assert isinstance(outcome, EpisodeResult)
    assert outcome.success
    assert outcome.violations == ("safety.collision", "safety.collision")


async def test_success_is_the_checkers_word_and_ends_the_episode() -> None:
    scenes = Scenes()

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE)), scenes=scenes))

    assert isinstance(outcome, EpisodeResult)
    assert (outcome.success, outcome.stop_reason) == (True, StopReason.ENVIRONMENT_SUCCESS)
    assert outcome.claims_success is None
    assert outcome.failure_class is FailureClass.NONE
    assert (outcome.usage.turns, outcome.usage.tool_calls) == (1, 1)
    assert outcome.cleanup.status is CleanupStatus.CLOSED
    assert scenes.opened[0].closes == 1


async def test_a_claim_of_success_is_recorded_and_never_counted() -> None:
    outcome = await run_episode(spec(), world=world(Saying(Finish(claims_success=True))))

    assert isinstance(outcome, EpisodeResult)
    assert (outcome.success, outcome.claims_success) == (False, True)
    assert outcome.failure_class is FailureClass.AGENT


async def test_success_already_true_at_reset_is_flagged_and_not_counted() -> None:
    scenes = Scenes(prepared(success_at_reset=True))

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE)), scenes=scenes))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.success_at_reset
    assert not outcome.success
    assert outcome.failure_class is FailureClass.INVALID
    assert outcome.usage.turns == 0


@pytest.mark.parametrize(
    ("budget", "reason", "turns"),
    [
        ({"max_turns": 3}, StopReason.MAX_TURNS, 3),
        ({"max_tool_calls": 4}, StopReason.TOOL_CALL_LIMIT_EXCEEDED, 5),
        ({"max_total_tokens": 30}, StopReason.TOKEN_LIMIT_EXCEEDED, 4),
    ],
    ids=["turns are a ceiling", "one call more than the limit", "one token more than the limit"],
)
async def test_a_budget_ends_the_episode_where_the_documentation_says(
    budget: dict[str, float], reason: StopReason, turns: int
) -> None:
    outcome = await run_episode(spec(**budget), world=world(Saying(calls(OBSERVE), tokens=10)))

    assert isinstance(outcome, EpisodeResult)
    assert (outcome.stop_reason, outcome.usage.turns) == (reason, turns)
    assert outcome.failure_class is FailureClass.BUDGET
    assert outcome.limit == next(iter(budget.values()))


async def test_no_call_beyond_the_limit_is_carried_out_within_a_turn_either() -> None:
    scenes = Scenes(prepared(solved_by=3))
    planner = Saying(calls(OBSERVE, OBSERVE), calls(MOVE))

    at_limit = await run_episode(spec(max_tool_calls=5), world=world(planner, scenes=scenes))
    beyond = await run_episode(spec(max_tool_calls=4), world=world(planner, scenes=scenes))

    assert isinstance(at_limit, EpisodeResult)
    assert (at_limit.success, at_limit.usage.tool_calls) == (True, 5)
    assert isinstance(beyond, EpisodeResult)
    assert beyond.stop_reason is StopReason.TOOL_CALL_LIMIT_EXCEEDED
    assert (beyond.success, beyond.observed, scenes.opened[1].acted) == (False, 5.0, 2)


async def test_a_decision_that_took_more_tokens_than_there_were_is_not_carried_out() -> None:
    scenes = Scenes()
    planner = Saying(calls(MOVE), tokens=11)

    outcome = await run_episode(spec(max_total_tokens=10), world=world(planner, scenes=scenes))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.TOKEN_LIMIT_EXCEEDED
    assert (outcome.success, outcome.observed, scenes.opened[0].acted) == (False, 11.0, 0)


async def test_a_batch_of_calls_counts_each_of_them() -> None:
    outcome = await run_episode(
        spec(max_tool_calls=5), world=world(Saying(calls(OBSERVE, OBSERVE, OBSERVE)))
    )

    assert isinstance(outcome, EpisodeResult)
    assert (outcome.usage.turns, outcome.usage.tool_calls) == (2, 6)


async def test_the_clock_runs_over_a_reset_that_hangs_and_the_environment_is_closed_once() -> None:
    never = anyio.Event()
    scenes = Scenes(prepared(before=lambda name: never if name == "reset" else None))

    outcome = await run_episode(
        spec(timeout_s=0.05), world=world(Saying(calls(MOVE)), scenes=scenes)
    )

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.EPISODE_TIMEOUT
    assert scenes.opened[0].closes == 1


@pytest.mark.parametrize("operation", ["create", "reset", "observe"])
async def test_a_simulator_that_breaks_leaves_no_verdict(operation: str) -> None:
    scenes = Scenes(prepared(before=broken(operation), shows=False, solved_by=0))

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE)), scenes=scenes))

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.failure_class is FailureClass.SIMULATOR


async def test_a_lost_reply_to_a_motion_is_followed_by_a_look_and_not_by_a_second_motion() -> None:
    hook = broken("move_to", code="simulator_mcp_transport_timeout", unknown=True)
    scenes = Scenes(prepared(before=hook, solved_by=0))
    planner = Saying(calls(MOVE), Finish())

    outcome = await run_episode(spec(), world=world(planner, scenes=scenes))

    assert isinstance(outcome, EpisodeResult)
    assert (scenes.opened[0].acted, scenes.opened[0].observed) == (1, 1)
    [told] = planner.contexts[1].results
    assert not told.success
    assert told.diagnostics[0].code == "simulator_mcp_transport_timeout"


async def test_a_success_whose_reply_was_lost_is_found_by_the_look_that_follows() -> None:
    hook = broken("move_to", code="simulator_mcp_transport_timeout", unknown=True)
    scenes = Scenes(prepared(before=hook, solved_by=1))

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE)), scenes=scenes))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.success


async def test_an_episode_that_ended_in_a_lost_reply_without_a_reward_seen_has_no_verdict() -> None:
    hook = broken("move_to", code="simulator_mcp_transport_timeout", unknown=True)
    scenes = Scenes(prepared(before=hook, solved_by=1, rewards_once=True))

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE)), scenes=scenes))

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.code == "verdict_lost"


async def test_time_that_ran_out_after_a_lost_reply_is_no_verdict_either() -> None:
    never = anyio.Event()
    lose = broken("move_to", code="simulator_mcp_transport_timeout", unknown=True)

    def hook(name: str) -> object:
        return never if name == "observe" else lose(name)

    scenes = Scenes(prepared(before=hook, solved_by=1, rewards_once=True))

    outcome = await run_episode(
        spec(timeout_s=0.05), world=world(Saying(calls(MOVE)), scenes=scenes)
    )

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.code == "verdict_lost"
    assert scenes.opened[0].closes == 1


async def test_an_end_long_after_a_lost_reply_is_a_verdict() -> None:
    hook = broken("move_to", code="simulator_mcp_transport_timeout", unknown=True)
    scenes = Scenes(prepared(before=hook, solved_by=0, ends_by=3))
    planner = Saying(calls(MOVE), calls(OPEN), calls(OPEN))

    outcome = await run_episode(spec(), world=world(planner, scenes=scenes))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.ENVIRONMENT_TERMINATED


async def test_three_failed_looks_after_a_motion_end_without_a_verdict() -> None:
    scenes = Scenes(prepared(before=broken("observe"), shows=False, solved_by=0))

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE)), scenes=scenes))

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.code == "fresh_observation_unavailable"


async def test_what_breaks_after_the_checker_has_spoken_takes_nothing_back() -> None:
    scenes = Scenes(prepared(before=broken("observe"), shows=False))

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE)), scenes=scenes))

    assert isinstance(outcome, EpisodeResult)
    assert (outcome.success, outcome.stop_reason) == (True, StopReason.ENVIRONMENT_SUCCESS)


async def test_a_collision_is_on_record_also_if_the_episode_breaks_after_it() -> None:
    scenes = Scenes(
        prepared(collides_at=frozenset({1}), solved_by=0, before=broken("gripper_control"))
    )

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE, OPEN)), scenes=scenes))

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.violations == ("safety.collision",)


async def test_a_motion_without_a_view_owes_one_before_the_next_decision() -> None:
    scenes = Scenes(prepared(shows=False, solved_by=0))
    planner = Saying(calls(MOVE), Finish())

    await run_episode(spec(), world=world(planner, scenes=scenes))

    assert scenes.opened[0].observed == 1
    assert planner.contexts[1].observation.state_digest == f"{1:064d}"


async def test_a_close_that_fails_does_not_change_the_verdict() -> None:
    scenes = Scenes(prepared(before=broken("close")))

    outcome = await run_episode(spec(), world=world(Saying(calls(MOVE)), scenes=scenes))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.success
    assert outcome.cleanup.status is CleanupStatus.FAILED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProviderError("down"), "provider_unavailable"),
        (ProviderQueueTimeout("busy"), "provider_queue_timeout"),
    ],
)
async def test_a_provider_outage_is_a_provider_failure_and_never_a_question(
    error: ProviderError, code: str
) -> None:
    planner = Saying(calls(OBSERVE), error)

    outcome = await run_episode(spec(), world=world(planner, on_need_human=OnNeedHuman.FAIL))

    assert isinstance(outcome, EpisodeFailure)
    assert (outcome.failure_class, outcome.code) == (FailureClass.PROVIDER, code)
    assert outcome.usage.tokens.total_tokens == 10, "what was spent before is not forgotten"


async def test_answers_that_were_charged_before_an_outage_are_not_forgotten() -> None:
    class Failing(SpeakingProvider):
        async def complete(self, request: ModelRequest) -> ModelReply:
            if self.requests:
                raise ProviderError("down", charged=cut.charged())
            return await super().complete(request)

    cut = TokenUsage(
        prompt_tokens=4, completion_tokens=1, total_tokens=5, sources={UsageSource.PROVIDER: 1}
    )

    planner = ModelPlanner(Failing("nonsense"), scripted=True)

    outcome = await run_episode(spec(), world=world(planner))

    assert isinstance(outcome, EpisodeFailure)
    assert outcome.usage.tokens == TokenUsage(total_tokens=TOKENS) + cut


async def test_answers_that_are_cut_are_the_agents_own_and_counted_as_the_endpoint_counts() -> None:
    cut = TokenUsage(
        prompt_tokens=100,
        completion_tokens=20,
        total_tokens=120,
        sources={UsageSource.PROVIDER: 1},
    )
    logs = Logs()
    provider = SpeakingProvider(ProviderReplyError("cut at 20 tokens", charged=cut.charged()))

    outcome = await run_episode(
        spec(), world=world(ModelPlanner(provider, scripted=True), logs=logs)
    )

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.PLANNER_VALIDATION_FAILED
    assert outcome.usage.tokens == cut + cut + cut
    assert outcome.usage.tokens.sources == {UsageSource.PROVIDER: 3}
    assert [trace.usage for trace in logs.traces] == [outcome.usage.tokens]
    row = outcome_row(0, spec(), outcome)
    assert row.usage.tokens == outcome.usage.tokens
    assert row.episode is not None
    assert row.episode.metadata.usage.token_usage_sources == {UsageSource.PROVIDER: 3}


async def test_a_model_that_talks_nonsense_to_the_end_of_its_retries_is_at_fault_itself() -> None:
    outcome = await run_episode(spec(), world=world(Saying(None)))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.PLANNER_VALIDATION_FAILED
    assert outcome.failure_class is FailureClass.PLANNER_FORMAT
    assert outcome.usage.validation_retries == 2


async def test_talk_ends_an_unattended_episode() -> None:
    outcome = await run_episode(spec(), world=world(Saying(Talk(message="hello"))))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.STATUS_REPORT


async def test_a_question_nobody_answers_ends_an_unattended_run_and_pauses_an_attended_one() -> (
    None
):
    planner = Saying(AskHuman(question="which one?"))

    alone = await run_episode(spec(), world=world(planner))
    waiting = await run_episode(spec(), world=world(planner, on_need_human=OnNeedHuman.PAUSE))

    assert isinstance(alone, EpisodeResult)
    assert isinstance(waiting, EpisodeResult)
    assert alone.stop_reason is StopReason.NEED_HUMAN_UNATTENDED
    assert alone.failure_class is FailureClass.HUMAN
    assert waiting.interaction is not None
    assert waiting.interaction.question == "which one?"


class _Answering:
    async def resolve(self, question: Question) -> Resolution:
        return Resolution(answer="the left one")


async def test_guidance_is_fed_back_and_counted_as_assistance() -> None:
    planner = Saying(AskHuman(question="which one?"), calls(MOVE))

    outcome = await run_episode(spec(), world=world(planner, guidance=_Answering()))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.success
    assert outcome.assistance.guidance_interventions == 1
    assert outcome.assistance.human_interventions == 0
    assert planner.contexts[1].feedback == ("guidance: the left one",)


class _Denying:
    profile = ApprovementProfile.REVIEWED_AUTONOMY

    async def authorize(self, context: ActionContext) -> Authorization:
        return Authorization(allowed=False, by="reviewer", reason="too close to the edge")


async def test_a_denied_motion_does_not_run_and_denials_are_bounded() -> None:
    scenes = Scenes()
    planner = Saying(calls(OPEN))

    outcome = await run_episode(spec(), world=world(planner, scenes=scenes, gate=_Denying()))

    assert isinstance(outcome, EpisodeResult)
    assert scenes.opened[0].acted == 0
    assert outcome.stop_reason is StopReason.SUPERVISION_DENIED
    assert outcome.usage.denied_calls == MAX_DENIALS
    assert planner.contexts[1].results[0].diagnostics[0].code == "supervision_denied"


class _FullDisk(Logs):
    def turn(self, trace: object, *, views: object = ()) -> None:
        raise StoreError("no space left on device")


async def test_a_full_disk_stops_the_run_instead_of_costing_an_episode() -> None:
    scenes = Scenes()

    with pytest.raises(StoreError, match="no space"):
        await run_episode(
            spec(), world=world(Saying(calls(OBSERVE)), scenes=scenes, logs=_FullDisk())
        )

    assert scenes.opened[0].closes == 1
