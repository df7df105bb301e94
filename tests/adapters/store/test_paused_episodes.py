"""A pending question is one file; of several who answer it, one is heard."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from openeta_exp.adapters.store.paused_episodes import FolderPausedEpisodes
from openeta_exp.domain.guidance import AnsweredQuestion, AnswerSource
from openeta_exp.errors import SettingsError
from tests.pauses import answered, paused


def test_a_record_is_pending_then_claimed_then_gone(tmp_path: Path) -> None:
    records, question = FolderPausedEpisodes(tmp_path), paused()

    records.keep(question)
    assert list(records.pending()) == [question]

    claimed = records.claim(question, answered(question))
    assert list(records.pending()) == []
    assert list(records.claimed()) == [claimed]
    assert claimed.answer == answered(question)

    records.done(claimed)
    records.done(claimed)
    assert list(records.claimed()) == []


def test_a_record_holds_no_handle_and_survives_its_process(tmp_path: Path) -> None:
    FolderPausedEpisodes(tmp_path).keep(paused())

    (file,) = (tmp_path / "pending").iterdir()
    (again,) = FolderPausedEpisodes(tmp_path).pending()

    assert again == paused()
    assert "handle" not in file.read_text(encoding="utf-8")


def test_of_many_who_claim_at_once_exactly_one_succeeds(tmp_path: Path) -> None:
    records, question = FolderPausedEpisodes(tmp_path), paused()
    records.keep(question)
    ready = threading.Barrier(6)
    heard: list[AnsweredQuestion] = []
    refused: list[str] = []

    def person(number: int) -> None:
        mine = answered(question, f"answer {number}")
        ready.wait()
        try:
            claimed = records.claim(question, mine)
        except SettingsError as error:
            refused.append(str(error))
        else:
            assert claimed.answer is not None
            heard.append(claimed.answer)

    people = [threading.Thread(target=person, args=(number,)) for number in range(6)]
    for each in people:
        each.start()
    for each in people:
        each.join()

    (claimed,) = records.claimed()
    assert [each.answer for each in heard] == [claimed.answer and claimed.answer.answer]
    assert len(refused) == 5
    assert all("somebody else has just answered" in sentence for sentence in refused)


def test_a_process_that_dies_while_it_claims_leaves_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, question = FolderPausedEpisodes(tmp_path), paused()
    records.keep(question)

    def die(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            records.claim(question, answered(question))

    (claimed,) = records.claimed()
    assert claimed.answer == answered(question)
    assert list(records.pending()) == []
    records.done(claimed)
    assert list(records.pending()) == list(records.claimed()) == []


def test_a_session_that_asks_again_keeps_its_new_question_when_the_old_one_is_done(
    tmp_path: Path,
) -> None:
    records, question = FolderPausedEpisodes(tmp_path), paused()
    records.keep(question)
    claimed = records.claim(question, answered(question))
    interaction = question.interaction.model_copy(update={"interaction_id": "another"})
    outcome = question.outcome.model_copy(update={"interaction": interaction})
    again = question.model_copy(update={"outcome": outcome})

    records.keep(again)
    records.done(claimed)

    assert list(records.pending()) == [again]


def test_a_damaged_record_is_named_and_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "pending").mkdir()
    (tmp_path / "pending" / "one-1.json").write_text('{"half": ', encoding="utf-8")

    with pytest.raises(SettingsError, match=r"one-1\.json: is no record of a paused episode"):
        list(FolderPausedEpisodes(tmp_path).pending())


def test_an_answer_keeps_who_gave_it(tmp_path: Path) -> None:
    assert answered(paused()).source is AnswerSource.HUMAN
