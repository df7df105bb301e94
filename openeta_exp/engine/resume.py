"""An episode that waited for a person is run again with the answer, and loses nothing on the way.

A question exists first as a pending record, then as a claimed one, and at last as an outcome in the
journal. Each step is made before the former trace is removed, so that a process that dies between
two of them leaves both, and `reconcile` removes the older.
"""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import BatchEnded, BatchStarted, EpisodeEnded, EpisodeStarted
from openeta_exp.domain.guidance import AnsweredQuestion, AnswerSource
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.engine.batch import Observers
from openeta_exp.engine.episode import EpisodeWorld, run_episode
from openeta_exp.engine.pause import Resumption
from openeta_exp.engine.summary import BatchReport, report_batch
from openeta_exp.errors import SettingsError
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.interactions import PausedEpisodes
from openeta_exp.ports.store import Journal


def reconcile(journal: Journal, records: PausedEpisodes, clock: Clock) -> None:
    """Bring journal and records together after a process died between the two.

    To be called by the process that may write the journal, before anything else.

    Raises:
        StoreError: A fact could not be kept.
        SettingsError: A record is damaged.
    """
    pending, claimed = list(records.pending()), list(records.claimed())
    if not pending and not claimed:
        return
    results = [
        event.outcome
        for _, event in journal.events()
        if isinstance(event, EpisodeEnded) and isinstance(event.outcome, EpisodeResult)
    ]
    known = {outcome.execution_id for outcome in results}
    for paused in (*claimed, *pending):
        if paused.outcome.execution_id not in known:
            journal.append(
                EpisodeEnded(batch_id=paused.batch_id, outcome=paused.outcome, at_s=clock.unix_s())
            )
            known.add(paused.outcome.execution_id)
            results.append(paused.outcome)
    for paused in claimed:
        of_session = [each for each in results if each.session_id == paused.outcome.session_id]
        if of_session[-1].execution_id != paused.outcome.execution_id:
            records.done(paused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a person says to a pending question.

    Attributes:
        answer: None goes on with an answer that was given before and whose episode did not end.
    """

    session_id: str
    interaction_id: str | None
    answer: str | None


def claim(reply: Reply, records: PausedEpisodes, clock: Clock) -> PausedEpisode:
    """Find the question, check that it is still this one, and take it for oneself.

    Raises:
        SettingsError: There is no such question, the id is stale, the answer is empty, or
            somebody else has answered.
        StoreError: It could not be written.
    """
    for paused in records.claimed():
        if paused.outcome.session_id == reply.session_id:
            return _again(paused, reply, records, clock)
    for paused in records.pending():
        if paused.outcome.session_id == reply.session_id:
            _check_id(paused, reply)
            return records.claim(paused, _answered(paused, reply, clock))
    raise SettingsError(
        f"session_id = {reply.session_id}: has no pending question; `command=pending` lists them"
    )


def _again(
    paused: PausedEpisode, reply: Reply, records: PausedEpisodes, clock: Clock
) -> PausedEpisode:
    """Go on with a claimed question whose process has died, or whose episode broke."""
    _check_id(paused, reply)
    if paused.answer is None:
        return records.answer(paused, _answered(paused, reply, clock))
    if reply.answer is not None and reply.answer.strip() != paused.answer.answer:
        raise SettingsError(
            f"interaction_id = {paused.interaction.interaction_id}: was answered already with "
            f"{paused.answer.answer!r}; leave `answer` out to go on with that"
        )
    return paused


def _check_id(paused: PausedEpisode, reply: Reply) -> None:
    now = paused.interaction.interaction_id
    if reply.interaction_id is not None and reply.interaction_id != now:
        raise SettingsError(
            f"interaction_id = {reply.interaction_id}: is stale; session {reply.session_id} now "
            f"asks {now}: {paused.interaction.question!r}"
        )


def _answered(paused: PausedEpisode, reply: Reply, clock: Clock) -> AnsweredQuestion:
    now = paused.interaction
    problems = [
        f"{name}: is missing"
        for name, given in (
            ("interaction_id", reply.interaction_id),
            ("answer", (reply.answer or "").strip()),
        )
        if not given
    ]
    if problems:
        raise SettingsError(problems)
    assert reply.answer is not None, "checked above"
    return AnsweredQuestion(
        interaction_id=now.interaction_id,
        question=now.question,
        answer=reply.answer.strip(),
        source=AnswerSource.HUMAN,
        at_s=clock.unix_s(),
    )


async def resume(
    claimed: PausedEpisode,
    *,
    world: EpisodeWorld,
    observers: Observers,
    records: PausedEpisodes,
) -> EpisodeOutcome:
    """Run the episode of a claimed question from its initial state, with the answer.

    The record goes only once the outcome is in the journal. An episode that breaks keeps it, so
    that the same command tries again with the same answer.

    Raises:
        StoreError: A fact could not be kept.
    """
    assert claimed.answer is not None, "a claimed question has its answer"
    observers.tell(
        EpisodeStarted(
            batch_id=claimed.batch_id,
            episode_id=claimed.spec.episode_id,
            at_s=observers.clock.unix_s(),
        )
    )
    outcome = await run_episode(
        claimed.spec, world=world, resumption=Resumption(paused=claimed, answer=claimed.answer)
    )
    observers.tell(
        EpisodeEnded(batch_id=claimed.batch_id, outcome=outcome, at_s=observers.clock.unix_s())
    )
    if not isinstance(outcome, EpisodeFailure):
        records.done(claimed)
    return outcome


def report_again(batch_id: str, journal: Journal) -> BatchReport | None:
    """A batch's report from the journal, the resumed outcome in place of the pending one.

    None if the journal does not know the batch.
    """
    started: BatchStarted | None = None
    ended: BatchEnded | None = None
    outcomes: list[EpisodeOutcome] = []
    for _, event in journal.events():
        match event:
            case BatchStarted() if event.batch_id == batch_id:
                started = event
            case BatchEnded() if event.batch_id == batch_id:
                ended = event
            case EpisodeEnded(outcome=outcome):
                outcomes.append(outcome)
            case _:
                pass
    if started is None:
        return None
    arm = started.arm.content_digest
    return report_batch(
        started,
        [outcome for outcome in outcomes if outcome.arm_digest == arm],
        duration_s=0.0 if ended is None else ended.duration_s,
        interrupted=ended is None or ended.interrupted,
        provider=None if ended is None else ended.provider,
    )
