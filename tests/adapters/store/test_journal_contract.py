"""What every journal promises, whichever keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.ports.store import Journal
from tests.batches import arm, broke, ended, lost, manifest, spec, started, story, won

Open = Callable[[], Journal]


@pytest.fixture(params=["memory", "sqlite"])
def open_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened: list[Journal] = []

    def new() -> Journal:
        journal: Journal = (
            MemoryJournal()
            if request.param == "memory"
            else SqliteJournal(tmp_path / f"{len(opened)}.sqlite")
        )
        opened.append(journal)
        return journal

    yield new
    for journal in opened:
        journal.close()


def test_facts_come_back_unchanged_in_the_order_they_were_written(open_journal: Open) -> None:
    journal = open_journal()
    facts = list(story(manifest(3), [won(spec(0)), lost(spec(1)), broke(spec(2))]))

    numbers = [journal.append(fact) for fact in facts]

    assert numbers == list(range(1, len(facts) + 1))
    assert list(journal.events()) == list(zip(numbers, facts, strict=True))


def test_reading_starts_after_the_number_asked_for(open_journal: Open) -> None:
    journal = open_journal()
    for fact in story(manifest(2), [won(spec(0)), won(spec(1))]):
        journal.append(fact)

    assert [seq for seq, _ in journal.events(after=4)] == [5, 6]
    assert list(journal.events(after=99)) == []


def test_only_a_verdict_under_the_same_arm_counts_as_done(open_journal: Open) -> None:
    journal = open_journal()
    baseline, candidate = arm(tree="a"), arm(tree="b")
    journal.append(started(manifest(3), of=baseline))
    journal.append(ended(won(spec(0), under=baseline)))
    journal.append(ended(broke(spec(1), under=baseline)))
    journal.append(ended(lost(spec(0), under=candidate)))

    outcomes = journal.outcomes(baseline.content_digest)

    assert dict(outcomes) == {(spec(0).content_digest, 0): won(spec(0), under=baseline)}
    assert list(journal.outcomes(arm(tree="c").content_digest)) == []


def test_an_arm_is_known_by_its_content_and_not_by_its_label(open_journal: Open) -> None:
    journal = open_journal()
    journal.append(ended(won(spec(0), under=arm("train"))))

    assert len(journal.outcomes(arm("baseline").content_digest)) == 1


def test_a_breakage_after_a_verdict_does_not_take_the_verdict_away(open_journal: Open) -> None:
    journal = open_journal()
    journal.append(ended(lost(spec(0), attempt=0)))
    journal.append(ended(broke(spec(0), attempt=1)))

    assert list(journal.outcomes(arm().content_digest).values()) == [lost(spec(0), attempt=0)]


def test_the_attempts_of_a_batch_are_all_of_its_own_the_broken_ones_included(
    open_journal: Open,
) -> None:
    journal = open_journal()
    first, again, other = broke(spec(0)), won(spec(0), attempt=1), lost(spec(1))
    for fact in story(manifest(2), [first, other]):
        journal.append(fact)
    journal.append(ended(again))
    journal.append(ended(lost(spec(0)), batch_id="another"))

    assert journal.attempts("exp-g000-train") == {
        (spec(0).content_digest, 0): [first, again],
        (spec(1).content_digest, 0): [other],
    }
    assert journal.attempts("nobody's") == {}


def test_repeats_of_an_episode_are_kept_apart(open_journal: Open) -> None:
    journal = open_journal()
    for repeat in range(3):
        journal.append(ended(won(spec(0, repeat=repeat))))

    outcomes = journal.outcomes(arm().content_digest)

    assert sorted(repeat for _, repeat in outcomes) == [0, 1, 2]


_ATTEMPT = st.tuples(st.integers(0, 3), st.sampled_from([won, lost, broke]))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_ATTEMPT, max_size=12))
def test_the_last_verdict_of_each_episode_is_the_one_that_counts(
    open_journal: Open, attempts: list[tuple[int, Callable[..., EpisodeOutcome]]]
) -> None:
    journal = open_journal()
    written = [make(spec(index), attempt=at) for at, (index, make) in enumerate(attempts)]
    for outcome in written:
        journal.append(ended(outcome))

    expected = {(each.spec_digest, each.repeat): each for each in written if each.kind == "result"}

    assert dict(journal.outcomes(arm().content_digest)) == expected
    assert all(after - before == 1 for (before, _), (after, _) in pairwise(journal.events()))
