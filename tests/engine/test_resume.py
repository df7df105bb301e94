"""A question, its answer and its outcome: nothing is lost on the way, and nobody answers twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.store.paused_episodes import FolderPausedEpisodes
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.decision import AskHuman, Decision
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import EpisodeEnded
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.domain.stop import StopReason
from openeta_exp.domain.summary import EpisodeStatus
from openeta_exp.domain.supervision import OnNeedHuman
from openeta_exp.engine.batch import Observers
from openeta_exp.engine.episode import EpisodeWorld, run_episode
from openeta_exp.engine.resume import Reply, claim, reconcile, report_again, resume
from openeta_exp.errors import SettingsError
from openeta_exp.reporting.console import Console
from tests.batches import batch_ended, ended, manifest, started, won
from tests.manual_clock import ManualClock
from tests.pauses import QUESTION, answered, paused
from tests.worlds import MOVE, Logs, Saying, Scenes, broken, calls, prepared, world

pytestmark = pytest.mark.anyio

ASK = AskHuman(question=QUESTION)


def observers(journal: MemoryJournal) -> Observers:
    return Observers(
        journal=journal, tracker=NullTracker(), progress=Console(), clock=ManualClock()
    )


def replies(**changed: str | None) -> Reply:
    fields = {
        "session_id": "episode-0-0",
        "interaction_id": "interaction-0",
        "answer": "Pick the red cube",
        **changed,
    }
    session_id = fields["session_id"]
    assert session_id is not None
    return Reply(
        session_id=session_id, interaction_id=fields["interaction_id"], answer=fields["answer"]
    )


def keeping(base: EpisodeWorld, records: FolderPausedEpisodes) -> EpisodeWorld:
    """The world, with a place for questions."""

    def keep(outcome: EpisodeResult, *, spec: object, asked: tuple[str, ...]) -> None:
        records.keep(paused().model_copy(update={"outcome": outcome, "asked": asked}))

    return EpisodeWorld(
        **{
            name: getattr(base, name)
            for name in EpisodeWorld.__dataclass_fields__
            if name != "keep_paused"
        },
        keep_paused=keep,
    )


async def resumed(
    tmp_path: Path, *says: Decision, scenes: Scenes | None = None
) -> tuple[EpisodeOutcome, Saying, FolderPausedEpisodes, MemoryJournal]:
    records, journal, planner = FolderPausedEpisodes(tmp_path), MemoryJournal(), Saying(*says)
    records.keep(paused())
    claimed = claim(replies(), records, ManualClock())
    outcome = await resume(
        claimed,
        world=keeping(
            world(planner, scenes=scenes, on_need_human=OnNeedHuman.PAUSE, logs=Logs()), records
        ),
        observers=observers(journal),
        records=records,
    )
    return outcome, planner, records, journal


async def test_the_answer_reaches_the_planner_and_the_counts_go_on(tmp_path: Path) -> None:
    outcome, planner, records, journal = await resumed(tmp_path, calls(MOVE))

    assert isinstance(outcome, EpisodeResult)
    assert outcome.success
    assert planner.contexts[0].feedback == ("human: Pick the red cube",)
    assert (planner.contexts[0].turn, outcome.usage.turns) == (0, 1)
    assert (outcome.usage.tool_calls, outcome.usage.tokens.total_tokens) == (7, 1_010)
    assert outcome.usage.denied_calls == 2
    assert outcome.assistance.human_interventions == 1
    assert outcome.assistance.guidance_interventions == 2
    assert outcome.session_id == paused().outcome.session_id
    assert outcome.execution_id != paused().outcome.execution_id
    assert (list(records.pending()), list(records.claimed())) == ([], [])
    assert [e.outcome for _, e in journal.events() if isinstance(e, EpisodeEnded)] == [outcome]


async def test_an_agent_that_asks_again_gets_a_new_question_under_the_same_session(
    tmp_path: Path,
) -> None:
    outcome, _, records, _ = await resumed(tmp_path, AskHuman(question="And then?"))

    assert isinstance(outcome, EpisodeResult)
    (again,) = records.pending()
    assert list(records.claimed()) == []
    assert again.interaction.question == "And then?"
    assert again.interaction.interaction_id != "interaction-0"
    assert again.asked == (QUESTION, "And then?")
    with pytest.raises(SettingsError, match="is stale"):
        claim(replies(), records, ManualClock())


async def test_an_episode_that_breaks_keeps_the_answer(tmp_path: Path) -> None:
    scenes = Scenes(prepared(before=broken("reset")))

    outcome, _, records, _ = await resumed(tmp_path, calls(MOVE), scenes=scenes)

    assert isinstance(outcome, EpisodeFailure)
    (kept,) = records.claimed()
    again = claim(replies(answer=None), records, ManualClock())
    assert again == kept


async def test_the_clock_of_a_resumed_episode_is_fresh_and_its_budget_of_tokens_is_not(
    tmp_path: Path,
) -> None:
    records, planner = FolderPausedEpisodes(tmp_path), Saying(calls(MOVE))
    spent = paused()
    budget = spent.spec.budget.model_copy(update={"max_total_tokens": 900})
    records.keep(
        spent.model_copy(update={"spec": spent.spec.model_copy(update={"budget": budget})})
    )

    outcome = await resume(
        claim(replies(), records, ManualClock()),
        world=world(planner),
        observers=observers(MemoryJournal()),
        records=records,
    )

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.TOKEN_LIMIT_EXCEEDED
    assert planner.contexts == []


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (replies(session_id="other-1"), "has no pending question"),
        (replies(interaction_id="interaction-9"), "is stale"),
        (replies(interaction_id=None), "interaction_id: is missing"),
        (replies(answer="  "), "answer: is missing"),
        (replies(answer=None), "answer: is missing"),
    ],
)
def test_a_reply_that_fits_no_question_is_refused_and_leaves_it_pending(
    tmp_path: Path, reply: Reply, problem: str
) -> None:
    records = FolderPausedEpisodes(tmp_path)
    records.keep(paused())

    with pytest.raises(SettingsError, match=problem):
        claim(reply, records, ManualClock())

    assert list(records.pending()) == [paused()]


def test_a_second_answer_is_refused_and_the_first_may_be_gone_on_with(tmp_path: Path) -> None:
    records = FolderPausedEpisodes(tmp_path)
    records.keep(paused())
    first = claim(replies(), records, ManualClock())

    with pytest.raises(SettingsError, match="was answered already with 'Pick the red cube'"):
        claim(replies(answer="Pick the blue one"), records, ManualClock())

    assert claim(replies(), records, ManualClock()) == first
    assert claim(replies(answer=None), records, ManualClock()) == first


def outcomes(journal: MemoryJournal) -> list[str]:
    return [e.outcome.execution_id for _, e in journal.events() if isinstance(e, EpisodeEnded)]


def test_a_process_that_died_before_the_journal_knew_of_the_question_loses_nothing(
    tmp_path: Path,
) -> None:
    records, journal = FolderPausedEpisodes(tmp_path), MemoryJournal()
    records.keep(paused())

    for _ in range(2):
        reconcile(journal, records, ManualClock())

    assert outcomes(journal) == [paused().outcome.execution_id]
    assert list(records.pending()) == [paused()]


def test_a_process_that_died_between_outcome_and_record_does_not_run_it_again(
    tmp_path: Path,
) -> None:
    records, journal = FolderPausedEpisodes(tmp_path), MemoryJournal()
    records.keep(paused())
    claimed = claim(replies(), records, ManualClock())
    done = won(claimed.spec, attempt=1).model_copy(
        update={"session_id": claimed.outcome.session_id}
    )
    journal.append(ended(claimed.outcome))
    journal.append(ended(done))

    reconcile(journal, records, ManualClock())

    assert list(records.claimed()) == []
    assert len(outcomes(journal)) == 2


def test_a_process_that_died_in_between_leaves_a_claim_that_is_gone_on_with(
    tmp_path: Path,
) -> None:
    records, journal = FolderPausedEpisodes(tmp_path), MemoryJournal()
    records.keep(paused())
    journal.append(ended(paused().outcome))
    claimed = claim(replies(), records, ManualClock())

    reconcile(journal, records, ManualClock())

    assert claim(replies(answer=None), records, ManualClock()) == claimed


def test_a_new_question_of_the_same_session_replaces_the_claim_it_came_from(
    tmp_path: Path,
) -> None:
    records, journal = FolderPausedEpisodes(tmp_path), MemoryJournal()
    records.keep(paused())
    journal.append(ended(paused().outcome))
    claim(replies(), records, ManualClock())
    records.keep(paused(attempt=1))

    reconcile(journal, records, ManualClock())

    assert list(records.claimed()) == []
    assert list(records.pending()) == [paused(attempt=1)]
    assert outcomes(journal)[-1] == paused(attempt=1).outcome.execution_id


def test_a_resumed_outcome_takes_the_pending_ones_place_in_its_batch(tmp_path: Path) -> None:
    journal, question = MemoryJournal(), paused()
    batch = started(manifest(2))
    other = batch.manifest.episodes[1]
    for event in (batch, ended(question.outcome), ended(won(other)), batch_ended()):
        journal.append(event)
    before = report_again(batch.batch_id, journal)
    journal.append(ended(_with_help(question)))

    after = report_again(batch.batch_id, journal)

    assert before is not None
    assert after is not None
    assert [row.status for row in before.result.outcomes] == [
        EpisodeStatus.NEED_HUMAN,
        EpisodeStatus.SUCCESS,
    ]
    assert after.result.success_count == 2
    assert after.result.human_assisted_success_count == 1
    assert after.result.autonomous_success_count == 1


def _with_help(question: PausedEpisode) -> EpisodeResult:
    assistance = question.outcome.assistance.model_copy(update={"human_interventions": 1})
    return won(question.spec, assistance=assistance, attempt=1)


async def test_the_environment_of_a_question_is_closed_at_once_and_the_record_comes_first(
    tmp_path: Path,
) -> None:
    records, scenes = FolderPausedEpisodes(tmp_path), Scenes()
    seen: list[int] = []

    def look(name: str) -> None:
        if name == "close":
            seen.append(len(list(records.pending())))

    scenes = Scenes(prepared(before=look))
    outcome = await run_episode(
        paused().spec,
        world=keeping(world(Saying(ASK), scenes=scenes, on_need_human=OnNeedHuman.PAUSE), records),
    )

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.NEED_HUMAN
    assert (scenes.opened[0].closes, scenes.in_flight) == (1, 0)
    assert seen == [1]


async def test_an_unattended_question_leaves_no_record(tmp_path: Path) -> None:
    records = FolderPausedEpisodes(tmp_path)

    outcome = await run_episode(
        paused().spec, world=keeping(world(Saying(ASK), on_need_human=OnNeedHuman.FAIL), records)
    )

    assert isinstance(outcome, EpisodeResult)
    assert outcome.stop_reason is StopReason.NEED_HUMAN_UNATTENDED
    assert list(records.pending()) == []


def test_answers_are_those_of_people(tmp_path: Path) -> None:
    records = FolderPausedEpisodes(tmp_path)
    records.keep(paused())

    claimed = claim(replies(), records, ManualClock())

    assert claimed.answer is not None
    assert claimed.answer.source is answered(paused()).source
