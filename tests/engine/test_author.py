"""The bench of an author: train episodes and answers, within an allowance, on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import AuthorReply
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.event import BatchEnded, BatchStarted, EpisodeEnded, Event
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ModelMessage, ModelRequest, ModelRole, TokenUsage
from openeta_exp.domain.money import Prices
from openeta_exp.engine.author import Allowance, AuthorBench
from openeta_exp.engine.batch import RunEpisode
from openeta_exp.errors import ProviderReplyError
from tests import batches
from tests.authoring import KilledError, MortalJournal, authored, workshop
from tests.generations import plan, run_everything, strategy, tree_of
from tests.speaking import TOKENS, SpeakingProvider

pytestmark = pytest.mark.anyio

PLAN = plan(train=6)
IDS = tuple(str(spec.episode_id) for spec in PLAN.train.episodes)
OTHER = tree_of(strategy(19, revision=2))


def bench(
    journal: MortalJournal,
    allowance: Allowance,
    *,
    episodes: RunEpisode | None = None,
    generation: int = 0,
) -> AuthorBench:
    def chosen(batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
        return episodes or run_everything(batch, tree)

    return AuthorBench(
        workshop(journal, of=PLAN, episodes=chosen),
        generation=generation,
        kind=ArtifactKind.GRASP_STRATEGY,
        allowance=allowance,
    )


def question(text: str) -> ModelRequest:
    return ModelRequest(
        role=ModelRole.STRATEGY_AUTHOR,
        messages=(ModelMessage(role="user", text=text),),
        max_output_tokens=100,
    )


def runs(events: Sequence[Event]) -> list[str]:
    return [str(outcome.episode_id) for outcome in authored(events)]


async def test_outcomes_come_in_the_order_asked_for_and_each_episode_runs_once() -> None:
    journal = MortalJournal()
    of = bench(journal, Allowance(episodes=6))

    outcomes = await of.run(OTHER, [IDS[3], IDS[0], IDS[3]])

    assert outcomes is not None
    assert [each.episode_id for each in outcomes] == [IDS[3], IDS[0], IDS[3]]
    assert sorted(runs(journal.facts)) == [IDS[0], IDS[3]]
    assert of.episodes_left == 4


async def test_not_one_episode_is_run_beyond_the_allowance() -> None:
    journal = MortalJournal()
    of = bench(journal, Allowance(episodes=5))

    assert await of.run(OTHER, IDS[:3]) is not None
    assert await of.run(OTHER, IDS) is None, "three more are needed and two are left"
    assert await of.run(OTHER, IDS[:5]) is not None
    assert await of.run(tree_of(strategy(12)), IDS[:1]) is None

    assert len(authored(journal.facts)) == 5
    assert of.episodes_left == 0


async def test_an_author_without_an_allowance_can_run_nothing() -> None:
    journal = MortalJournal()

    assert await bench(journal, Allowance()).run(OTHER, IDS[:1]) is None
    assert journal.facts == []


async def test_there_are_no_other_episodes_than_those_of_the_train_manifest() -> None:
    of = bench(MortalJournal(), Allowance(episodes=50))

    for others in (PLAN.held_out, PLAN.canary):
        with pytest.raises(KeyError):
            await of.run(OTHER, [str(others.episodes[0].episode_id)])


async def test_verdicts_of_the_train_batch_are_taken_from_there_and_cost_nothing() -> None:
    journal = MortalJournal()
    trained = PLAN.batch(
        "train", label="train", generation=0, tree=PLAN.tree, manifest=PLAN.train, at_s=0.0
    )
    journal.append(trained)
    for spec in PLAN.train.episodes:
        outcome = batches.won(spec, under=trained.arm)
        journal.append(EpisodeEnded(batch_id=trained.batch_id, outcome=outcome, at_s=0.0))
    of = bench(journal, Allowance(episodes=1))

    outcomes = await of.run(PLAN.tree, IDS)

    assert outcomes is not None
    assert len(outcomes) == 6
    assert (authored(journal.facts), of.episodes_left) == ([], 1)


async def test_what_breaks_is_tried_three_times_and_each_attempt_counts() -> None:
    async def breaking(spec: EpisodeSpec) -> EpisodeOutcome:
        return batches.broke(spec, under=PLAN.arm("author", OTHER))

    journal = MortalJournal()
    of = bench(journal, Allowance(episodes=5), episodes=breaking)

    first = await of.run(OTHER, IDS[:1])
    again = await of.run(OTHER, IDS[:1])
    second = await of.run(OTHER, IDS[1:2])

    assert first is not None
    assert isinstance(first[0], EpisodeFailure)
    assert again == first
    assert second is None, "two attempts were left, and a third might have worked"
    assert runs(journal.facts) == [IDS[0]] * 3 + [IDS[1]] * 2


async def test_nothing_is_started_once_the_money_is_spent() -> None:
    journal = MortalJournal()
    of = bench(journal, Allowance(episodes=50, usd=1.5 * TOKENS / 1e6))
    provider = SpeakingProvider("a dollar for a million tokens")

    answers = [await of.ask(question(each), provider=provider) for each in "abc"]

    assert [answer is None for answer in answers] == [False, False, True]
    assert len(provider.requests) == 2
    assert await of.run(OTHER, IDS[:1]) is None
    assert authored(journal.facts) == []
    assert of.effort(TokenUsage()).usd == pytest.approx(2 * TOKENS / 1e6)


async def test_without_prices_only_episodes_are_limited() -> None:
    free = replace(PLAN, prices=Prices(input_usd=None, output_usd=None))
    of = AuthorBench(
        workshop(MortalJournal(), of=free),
        generation=0,
        kind=ArtifactKind.GRASP_STRATEGY,
        allowance=Allowance(episodes=2, usd=1e-9),
    )

    assert await of.ask(question("a"), provider=SpeakingProvider("one")) is not None
    assert await of.run(OTHER, IDS[:2]) is not None
    assert of.effort(TokenUsage()).usd is None


async def test_a_restarted_author_gets_its_answers_again_in_the_order_it_got_them() -> None:
    journal = MortalJournal()
    first = bench(journal, Allowance())
    answers = iter(("one", "two", "three"))
    provider = SpeakingProvider(lambda _: next(answers))
    said = [await first.ask(question(each), provider=provider) for each in "aab"]

    second = bench(journal, Allowance())
    again = [
        await second.ask(question(each), provider=SpeakingProvider(AssertionError("asked again")))
        for each in "aba"
    ]

    assert [each.text for each in said if each] == ["one", "two", "three"]
    assert again == [said[0], said[2], said[1]]


async def test_an_answer_that_cannot_be_used_is_on_record_with_what_it_cost() -> None:
    of = bench(journal := MortalJournal(), Allowance())
    cut = SpeakingProvider(
        ProviderReplyError("cut by length", charged=TokenUsage(total_tokens=70).charged())
    )

    reply = await of.ask(question("a"), provider=cut)

    assert reply is not None
    assert (reply.text, reply.problem) == ("", "cut by length")
    assert of.effort(TokenUsage(total_tokens=5)).tokens.total_tokens == 75
    again = bench(journal, Allowance())
    assert await again.ask(question("a"), provider=SpeakingProvider("other")) == reply


async def test_another_generation_is_answered_anew() -> None:
    journal = MortalJournal()
    await bench(journal, Allowance()).ask(question("a"), provider=SpeakingProvider("one"))

    reply = await bench(journal, Allowance(), generation=1).ask(
        question("a"), provider=SpeakingProvider("two")
    )

    assert isinstance(reply, AuthorReply)
    assert reply.text == "two"


async def test_a_restarted_author_runs_only_what_is_missing_and_its_allowance_goes_on() -> None:
    journal = MortalJournal()
    journal.left = 6
    with pytest.raises((KilledError, ExceptionGroup)):
        await bench(journal, Allowance(episodes=6)).run(OTHER, IDS)
    kept = journal.facts
    before = runs(kept)

    resumed = MortalJournal(kept)
    of = bench(resumed, Allowance(episodes=6))
    left_at_first = of.episodes_left
    outcomes = await of.run(OTHER, IDS)

    assert 0 < len(before) < 6
    assert left_at_first == 6, "what it decides does not depend on where it was interrupted"
    assert outcomes is not None
    assert sorted(runs(resumed.facts)) == sorted(IDS)
    assert of.episodes_left == 0
    assert of.effort(batches.usage(0).tokens).episodes == 6


async def test_episodes_of_an_author_are_a_batch_with_a_beginning_and_an_end() -> None:
    journal = MortalJournal()
    of = bench(journal, Allowance(episodes=6))

    await of.run(OTHER, IDS[:2])
    await of.run(OTHER, IDS[:4])

    started = [event for event in journal.facts if isinstance(event, BatchStarted)]
    ended = [event for event in journal.facts if isinstance(event, BatchEnded)]
    assert [len(each.manifest.episodes) for each in started] == [2, 4]
    assert len({each.batch_id for each in started}) == 1
    assert [each.interrupted for each in ended] == [False, False]
    assert started[0].phase == f"grasp-strategy-{OTHER.content_digest[:8]}-author"
