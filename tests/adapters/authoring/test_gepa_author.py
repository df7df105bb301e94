"""GEPA as an author: it searches on train episodes, within its allowance, and judges nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

import anyio
import pytest

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.candidate import Proposal
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import AuthorAnswered, BatchStarted, EpisodeEnded, Event
from openeta_exp.domain.generation import LaneStop
from openeta_exp.domain.grasp_strategy import GraspStrategy, check_revision, parse_strategy
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ModelMessage, ModelRole
from openeta_exp.embedded.models.strategy_author import strategy_author
from openeta_exp.engine.author import Allowance
from openeta_exp.engine.batch import RunEpisode
from openeta_exp.engine.lane import Episodes
from openeta_exp.engine.lineage import AUTHORING
from openeta_exp.errors import ProviderError
from openeta_exp.ports.provider import Provider
from tests import batches
from tests.authoring import (
    KilledError,
    MortalJournal,
    authored,
    engine_with,
    gepa,
    longer,
    proposals,
)
from tests.generations import plan, run_everything
from tests.speaking import SpeakingProvider

pytestmark = pytest.mark.anyio

TRAIN = 12
PLAN = plan(generations=1, train=TRAIN)
BUDGET = Allowance(episodes=48)


async def searched(
    provider: Provider,
    *,
    journal: MortalJournal | None = None,
    allowance: Allowance = BUDGET,
    seed: int = 0,
    episodes: Episodes = run_everything,
) -> tuple[Proposal, list[Event]]:
    """What is proposed in a generation, and the facts of it."""
    journal = journal or MortalJournal()
    author = gepa(provider, seed=seed, episodes=TRAIN)
    engine = engine_with(author, journal, of=PLAN, allowance=allowance, episodes=episodes)
    await engine.run()
    [proposal] = proposals(journal.facts)
    return proposal, journal.facts


def strategy_of(proposal: Proposal) -> GraspStrategy:
    assert proposal.candidate is not None, proposal.reason
    artifact = proposal.candidate.artifact
    return parse_strategy(artifact.text, source=artifact.name)


async def test_revisions_of_revisions_are_tried_and_the_best_is_proposed() -> None:
    provider = SpeakingProvider(longer)

    proposal, events = await searched(provider)

    [in_use] = PLAN.tree.grasp_strategies()
    strategy = strategy_of(proposal)
    assert strategy.motion_policy.close_steps > in_use.motion_policy.close_steps + 3
    check_revision(strategy, in_use)
    assert strategy.provenance["author"] == "gepa"
    assert proposal.candidate is not None
    assert proposal.candidate.origin == "author:gepa"
    assert proposal.candidate.supporting_episode_ids
    assert "training episodes instead of" in proposal.candidate.rationale
    assert {request.role for request in provider.requests} == {ModelRole.STRATEGY_AUTHOR}
    assert len(provider.requests) == sum(isinstance(each, AuthorAnswered) for each in events)


async def test_what_is_proposed_is_what_was_tried_to_the_byte() -> None:
    proposal, events = await searched(SpeakingProvider(longer))

    assert proposal.candidate is not None
    tested = proposal.candidate.applied_to(PLAN.tree)
    tried = {
        event.arm.tree_digest
        for event in events
        if isinstance(event, BatchStarted) and AUTHORING in event.phase
    }
    assert tested.content_digest in tried


async def test_the_proposal_says_what_it_took() -> None:
    proposal, events = await searched(SpeakingProvider(longer))

    replies = [event.reply for event in events if isinstance(event, AuthorAnswered)]
    outcomes = authored(events)
    tokens = sum(each.usage.total_tokens for each in replies) + sum(
        each.usage.tokens.total_tokens for each in outcomes
    )
    assert proposal.effort.episodes == len(outcomes) > 0
    assert proposal.effort.tokens.total_tokens == tokens
    assert proposal.effort.usd is not None
    assert proposal.usage.total_tokens == 0, "each answer is counted as it comes"


@pytest.mark.parametrize("most", range(TRAIN, 2 * TRAIN + 6, 3))
async def test_the_budget_is_not_exceeded_by_one_episode(most: int) -> None:
    proposal, events = await searched(SpeakingProvider(longer), allowance=Allowance(episodes=most))

    assert 0 < len(authored(events)) <= most
    assert proposal.effort.episodes == len(authored(events))


async def test_only_train_episodes_are_run_for_an_author() -> None:
    _, events = await searched(SpeakingProvider(longer))

    train = {spec.content_digest for spec in PLAN.train.episodes}
    others = {spec.content_digest for spec in (*PLAN.held_out.episodes, *PLAN.canary.episodes)}
    run = {outcome.spec_digest for outcome in authored(events)}
    assert run <= train
    assert not run & others
    seen = json.dumps([event.model_dump(mode="json") for event in events[: _proposed_at(events)]])
    assert not any(spec.episode_id in seen for spec in PLAN.held_out.episodes)


def _proposed_at(events: Sequence[Event]) -> int:
    return next(place for place, event in enumerate(events) if event.kind == "candidate_proposed")


async def test_a_candidate_goes_through_the_gate_of_every_other() -> None:
    journal = MortalJournal()
    engine = engine_with(
        gepa(SpeakingProvider(longer), episodes=TRAIN), journal, of=PLAN, allowance=BUDGET
    )

    result = await engine.run()

    lane = result.generations[0].lanes[0]
    assert lane.stop is LaneStop.PROMOTED
    assert lane.review is not None
    assert lane.canary is not None
    assert lane.held_out is not None


async def test_the_same_seed_searches_the_same_way() -> None:
    first, events = await searched(SpeakingProvider(longer), seed=3)
    second, again = await searched(SpeakingProvider(longer), seed=3)

    def asked(of: Sequence[Event]) -> list[str]:
        return [event.request_digest for event in of if isinstance(event, AuthorAnswered)]

    assert first == second
    assert asked(events) == asked(again)


async def test_thirty_kills_run_no_episode_twice_ask_nothing_twice_and_change_nothing() -> None:
    whole, events = await searched(SpeakingProvider(longer))
    draw = random.Random(20261201)
    kept: list[Event] = []
    kills = 0
    finished: Proposal | None = None
    while finished is None:
        journal = MortalJournal(kept)
        if kills < 30:
            journal.left = draw.randrange(1, 12)
        try:
            finished, _ = await searched(SpeakingProvider(longer), journal=journal)
        except (KilledError, ExceptionGroup):
            kills += 1
        kept = journal.facts

    runs = [
        (event.outcome.arm_digest, event.outcome.spec_digest)
        for event in kept
        if isinstance(event, EpisodeEnded)
    ]
    assert kills >= 10
    assert finished == whole
    assert len(runs) == len(set(runs))
    asked = [event.request_digest for event in kept if isinstance(event, AuthorAnswered)]
    assert asked == [event.request_digest for event in events if isinstance(event, AuthorAnswered)]


async def test_the_embedded_author_understands_what_it_is_asked() -> None:
    proposal, _ = await searched(SpeakingProvider(strategy_author))

    assert strategy_of(proposal).motion_policy.close_steps == 12


@pytest.mark.parametrize(
    "says",
    [
        "",
        "no JSON",
        '{"decision": "no_change", "reason": "fine", "strategy": null}',
        '{"decision": "propose", "reason": "x", "strategy": {"close": 3}}',
        lambda messages: longer(messages, by=0),
        lambda messages: longer(messages, by=1_000),
    ],
)
async def test_useless_answers_end_the_search_without_an_episode(
    says: str | Callable[[Sequence[ModelMessage]], str],
) -> None:
    provider = SpeakingProvider(says)

    proposal, events = await searched(provider)

    assert proposal.candidate is None
    assert "nothing new was written" in proposal.reason
    assert authored(events) == []
    assert 0 < len(provider.requests) <= 8


async def test_a_worse_revision_is_not_proposed_and_its_author_is_told() -> None:
    provider = SpeakingProvider(lambda messages: longer(messages, by=-1))

    proposal, events = await searched(provider)

    assert proposal.candidate is None
    assert "no revision did better than the strategy in use" in proposal.reason
    assert authored(events)
    told = json.loads(provider.requests[-1].messages[-1].text)["earlier_candidates"]
    assert told[-1]["stopped_by"] == "discarded_in_training"


async def test_nobody_is_asked_where_everything_was_solved() -> None:
    def solving(batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
        async def run(spec: EpisodeSpec) -> EpisodeOutcome:
            return batches.won(spec, under=batch.arm)

        return run

    provider = SpeakingProvider(longer)
    proposal, _ = await searched(provider, episodes=solving)

    assert proposal.candidate is None
    assert proposal.reason == "author_no_change: every one of 12 training episodes was solved"
    assert provider.requests == []


async def test_revisions_are_measured_on_as_many_episodes_as_asked_for_of_different_tasks() -> None:
    journal = MortalJournal()
    author = gepa(SpeakingProvider(longer), episodes=3)

    await engine_with(author, journal, of=PLAN, allowance=BUDGET).run()

    measured = {outcome.episode_id for outcome in authored(journal.facts)}
    assert measured == {"pick-0-0", "pick-1-1", "pick-2-2"}


async def test_an_author_without_a_single_verdict_asks_nobody() -> None:
    def breaking(batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
        async def run(spec: EpisodeSpec) -> EpisodeOutcome:
            return batches.broke(spec, under=batch.arm)

        return run

    provider = SpeakingProvider(longer)
    proposal, _ = await searched(provider, episodes=breaking)

    assert (proposal.candidate, proposal.reason) == (None, "no training episode has a verdict")
    assert provider.requests == []


async def test_a_revision_that_breaks_the_simulator_is_not_proposed() -> None:
    def breaking(batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
        sound = run_everything(batch, tree)

        async def run(spec: EpisodeSpec) -> EpisodeOutcome:
            if AUTHORING in batch.phase:
                return batches.broke(spec, under=batch.arm)
            return await sound(spec)

        return run

    proposal, events = await searched(SpeakingProvider(longer), episodes=breaking)

    assert proposal.candidate is None
    assert 0 < len(authored(events)) <= BUDGET.episodes


async def test_a_provider_that_is_gone_ends_the_command_and_is_asked_once() -> None:
    provider = SpeakingProvider(ProviderError("gone"))
    journal = MortalJournal()

    with pytest.raises(ProviderError, match="gone"):
        await searched(provider, journal=journal)

    assert len(provider.requests) == 1
    assert proposals(journal.facts) == []


async def test_cancellation_stops_the_search_and_nothing_is_proposed() -> None:
    begun = anyio.Event()

    def waiting(batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
        sound = run_everything(batch, tree)

        async def run(spec: EpisodeSpec) -> EpisodeOutcome:
            if AUTHORING in batch.phase:
                begun.set()
                await anyio.sleep_forever()
            return await sound(spec)

        return run

    journal = MortalJournal()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:

            async def search() -> None:
                await searched(SpeakingProvider(longer), journal=journal, episodes=waiting)

            group.start_soon(search)
            await begun.wait()
            group.cancel_scope.cancel()

    assert journal.facts[-1].kind == "batch_ended"
    assert proposals(journal.facts) == []
